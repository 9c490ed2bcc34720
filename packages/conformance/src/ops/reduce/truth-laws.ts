import { type TruthReduceKind, truthReduceKinds } from "@backplane/core";
import { oddPlacement } from "../../arbitraries/shapes.js";
import { random } from "../../data.js";
import { lawsOnKinds } from "../../kit/kinds.js";
import { product } from "../../kit/shapes.js";
import type { Law, LawContext } from "../../law.js";
import {
  cases,
  check,
  countOf,
  emptyCases,
  expectedOf,
  largeShapes,
  manyAxes,
  ofNothing,
  type ReduceCase,
  reduceCase,
  run,
} from "./laws.js";

const { having, law } = lawsOnKinds("reduce", "u8", truthReduceKinds);

const exactly = (context: LawContext, value: ReduceCase) =>
  check(context, "u8", value, truths(value), () => 0);

/** Laws on truth values, of which all results are exact. */
export const truthLaws: readonly Law[] = [
  ...truthReduceKinds.flatMap((kind) => [
    law(`${kind}: is exact`, [kind], (context) =>
      context.forAll(cases({ kinds: [kind] }), (value) => exactly(context, value), { runs: 2 }),
    ),
    law(`${kind}: is exact on larger shapes`, [kind], (context) =>
      context.forEach(
        largeShapes.map((shape) => reduceCase({ kind, ...shape })),
        (value) => exactly(context, value),
        { quick: 3 },
      ),
    ),
    law(`${kind}: of nothing is the identity`, [kind], (context) =>
      context.forAll(emptyCases(kind), (value) => ofNothing(context, "u8", value)),
    ),
    law(`${kind}: sees one byte at any place`, [kind], (context) =>
      context.forEach([5, 16, 33, 67], (n) => atEachPlace(context, kind, n)),
    ),
  ]),
  {
    ...law("all is true just where not one is false", truthReduceKinds, duality),
    exempt: (_capabilities, backend) =>
      having({ backend }).length === truthReduceKinds.length
        ? undefined
        : "any and all in u8: not both supported",
  },
  law("takes any number of axes", truthReduceKinds, (context) =>
    context.forEach(
      manyAxes.flatMap((given) => having(context).map((kind) => reduceCase({ kind, ...given }))),
      (value) => exactly(context, value),
      { quick: 4 },
    ),
  ),
  law("takes each element alone where there are no axes to reduce", truthReduceKinds, (context) =>
    context.forAll(cases({ kinds: having(context) }), (value) => exactly(context, { ...value, axes: [] })),
  ),
  law("touches nothing but the elements of its output", truthReduceKinds, (context) =>
    context.forAll(cases({ kinds: having(context), placement: oddPlacement }), (value) =>
      exactly(context, value),
    ),
  ),
];

/** all(x) = not any(not x) */
async function duality(context: LawContext): Promise<void> {
  await context.forAll(cases({ kinds: ["all"] }), async (value) => {
    const input = truths(value);
    const falsehoods = input.map((x) => (x === 0 ? 255 : 0));
    const any: ReduceCase = { ...value, kind: "any" };
    const all = await run(context, "u8", value, input, expectedOf("u8", value, input));
    const one = await run(context, "u8", any, falsehoods, expectedOf("u8", any, falsehoods));
    for (const [place, result] of all.entries())
      if (result !== 1 - one[place]!)
        throw new Error(`all ${place} is ${result}, and any of what is not true ${one[place]}`);
  });
}

/** Any byte but 0 is true: most have one bit, which is each in turn. */
const truth = (i: number): number => (i % 11 === 10 ? 255 : 2 ** (i % 8));

/** About half of the results are decided by a few elements, and the others by none. */
function truths(value: ReduceCase): Float64Array {
  const count = product(value.shape);
  const results = Math.max(countOf(value, "kept"), 1);
  const next = random(value.seed);
  const share = Math.min((0.7 * results) / Math.max(count, 1), 0.5);
  return new Float64Array(count).map((_, i) => {
    const isDecisive = next() < share;
    return isDecisive === (value.kind === "any") ? truth(i) : 0;
  });
}

/** Of n rows, or columns, each has a decisive element at another place; n more have none. */
async function atEachPlace(context: LawContext, kind: TruthReduceKind, n: number): Promise<void> {
  for (const axis of [0, 1]) {
    const shape = [0, 1].map((i) => (i === axis ? n : 2 * n));
    const input = new Float64Array(2 * n * n).map((_, i) => {
      const [row, column] = [Math.floor(i / shape[1]!), i % shape[1]!];
      return (row === column) === (kind === "any") ? truth(i) : 0;
    });
    await check(context, "u8", reduceCase({ kind, shape, axes: [axis] }), input, () => 0);
  }
}
