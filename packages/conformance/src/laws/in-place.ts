import type { OperationName } from "@backplane/core";
import { argumentsOf } from "../kit/arguments.js";
import { type Compute, compare, having, inPlaceLaw, samples } from "../kit/in-place.js";
import type { Law } from "../law.js";
import { everyOperation, kindsOf } from "../ops/index.js";
import type { TestedOperation } from "../ops/operation.js";
import { smallCalls } from "./calls.js";

/** Sizes around vectors, workgroups and the chunks of threads. */
const counts = [1, 3, 4, 5, 64, 257, 5000];

/** Outputs may lie exactly over inputs where an operation says so. */
export const inPlaceLaws: readonly Law[] = everyOperation.flatMap((tested) =>
  tested.inPlace === undefined ? [] : [overInputs(tested, tested.inPlace), ...(tested.inPlaceLaws ?? [])],
);

function overInputs(tested: TestedOperation, callOf: NonNullable<TestedOperation["inPlace"]>): Law {
  const { operation, small } = tested;
  const name = operation.name as OperationName;
  const over = small.inPlace ?? [];
  const [output] = smallCalls[name].outputs;
  const title = `may write exactly over ${over.length === 1 ? "its input" : "either input"}`;
  return inPlaceLaw(name, title, async ({ backend, forEach }) => {
    const cases = having(backend, name, tested.inPlaceKinds ?? kindsOf(tested) ?? [undefined]).flatMap(
      (given, i) =>
        // All sizes for the first kinds, one for each of the others.
        (i % 7 === 0 ? counts : [counts[i % counts.length]!]).map((n) => ({ ...given, n })),
    );
    await forEach(cases, async ({ dtype, kind, n }) => {
      const { operands, rest, types } = callOf(n);
      const inputs = Object.keys(operands).filter((operand) => operand !== output);
      const method = backend[name].bind(backend) as (args: unknown) => void;
      const run: Compute = (places, to) => {
        const named = Object.fromEntries(inputs.map((input, i) => [input, places[i]]));
        method(
          argumentsOf({ ...rest, ...(kind === undefined ? {} : { kind }), dtype, ...named, [output!]: to }),
        );
      };
      // Other data for each input.
      const typesOf = inputs.map((input) => types?.[input] ?? dtype);
      const contents = inputs.map((input, i) => samples(operands[input]!, 5 * i, typesOf[i]!));
      const indices = over.map((input) => inputs.indexOf(input));
      await compare(backend, dtype, contents, indices, run, `${kind ?? name} ${dtype} of ${n}`, typesOf);
    });
  });
}
