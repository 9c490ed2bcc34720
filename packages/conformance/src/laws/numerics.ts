import { type FloatType, floatTypes, type OperationName } from "@backplane/core";
import { draw } from "../data.js";
import { pattern } from "../kit/checks.js";
import { computeWith, expectSame, numericsLaw } from "../kit/values.js";
import type { Law, LawContext, NumericsFlag } from "../law.js";
import { everyOperation } from "../ops/index.js";
import type { PoisonedCall, RepeatedCall } from "../ops/operation.js";

const flags: readonly NumericsFlag[] = ["nan", "infinity", "subnormals", "signedZero"];

/** The promises beyond tolerances, flag by flag, and the rules that hold without a promise. */
export const numericsLaws: readonly Law[] = floatTypes.flatMap((dtype) => {
  const special = everyOperation.flatMap(({ specialValues }) => specialValues?.(dtype) ?? []);
  return [
    ...everyOperation.flatMap(({ operation, poisoned }) =>
      poisoned === undefined ? [] : [spreadLaw(operation.name as OperationName, dtype, poisoned)],
    ),
    ...flags.flatMap((flag) => special.filter(({ promise }) => promise?.flag === flag)),
    ...everyOperation.flatMap(({ operation, repeated }) =>
      repeated === undefined ? [] : [determinismLaw(operation.name as OperationName, dtype, repeated)],
    ),
  ];
});

/** An element that depends on a NaN must not affect its neighbours. */
function spreadLaw(operation: OperationName, dtype: FloatType, poisoned: PoisonedCall): Law {
  const { rest, inputs, types, at, hit } = poisoned;
  return numericsLaw(
    dtype,
    operation,
    "a NaN reaches the results that depend on it, where NaN is kept, and no others",
    undefined,
    async (context) => {
      const outputs = Object.fromEntries(Object.entries(hit).map(([name, { length }]) => [name, length]));
      const run = (given: PoisonedCall["inputs"]) =>
        computeWith(context.backend, operation, dtype, rest, given, outputs, types);
      const clean = await run(inputs);
      const [[name, values]] = Object.entries(inputs) as [[string, readonly number[]]];
      const dirty = await run({ ...inputs, [name]: values.with(at, Number.NaN) });
      for (const output of Object.keys(hit))
        expectSpread(context, dirty[output]!, clean[output]!, hit[output]!);
    },
    rest.kind as string | undefined,
  );
}

/** Result elements that depend on the NaN may hold anything, or must be NaN if that is kept. */
function expectSpread(
  context: LawContext,
  got: readonly number[],
  clean: readonly number[],
  hit: readonly boolean[],
): void {
  const keeps = context.backend.capabilities.numerics.nan === "kept";
  for (const [i, value] of clean.entries()) {
    // Results differ by rounding at most, and not even by that if they are deterministic.
    const isSame = Math.abs(got[i]! - value) <= 0.01;
    if (hit[i] ? keeps && !Number.isNaN(got[i]) : !isSame)
      throw new Error(
        `one input is NaN, ${hit[i] ? "which concerns" : "but not of"} result ${i}; it is ${got[i]}` +
          (hit[i] ? "" : `, not ${value}`),
      );
  }
}

function determinismLaw(operation: OperationName, dtype: FloatType, repeated: RepeatedCall): Law {
  const { rest, inputs, outputs, types } = repeated;
  return numericsLaw(
    dtype,
    operation,
    "the same call on the same data gives the same bits",
    { flag: "deterministic", value: true },
    async ({ backend }) => {
      const drawn = Object.entries(inputs).map(([name, count], i): [string, readonly number[]] => [
        name,
        Array.from(types?.[name] === "u8" ? pattern(count, i) : draw("normal", count, i + 1, dtype)),
      ]);
      const run = () =>
        computeWith(backend, operation, dtype, rest, Object.fromEntries(drawn), outputs, types);
      const first = await run();
      for (let again = 0; again < 2; again++) {
        const results = await run();
        for (const output of Object.keys(outputs)) expectSame(operation, results[output]!, first[output]!);
      }
    },
    rest.kind as string | undefined,
  );
}
