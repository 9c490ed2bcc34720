import { countUp, isIn } from "../../kit/values.js";
import type { Call, PoisonedCall, SmallCall } from "../operation.js";

export const small: SmallCall = {
  operands: { a: 7, b: 7, output: 7 },
  rest: { kind: "add", n: 7 },
  inPlace: ["a", "b"],
  malformed: [
    ...[{ n: undefined }, { shapeA: [7], shapeB: [7] }, { outputShape: [6] }],
    ...[
      { n: undefined, shapeA: [7], shapeB: [2] },
      { n: undefined, shapeA: [7], shapeB: [-7] },
    ],
    { a: { scalar: 1 }, b: { scalar: 2 } },
  ],
  nothing: [{ n: 0 }, { n: undefined, shapeA: [0, 7], shapeB: [7] }],
  tooLarge: [["output", { n: undefined, shapeA: [7, 1], shapeB: [7] }]],
};

export const inPlace = (n: number): Call => ({
  operands: { a: n, b: n, output: n },
  rest: { kind: "add", n },
});

export const medium: Call = inPlace(20_001);

export const poisoned: PoisonedCall = {
  rest: { kind: "add", n: 70 },
  inputs: { a: countUp(70), b: countUp(70, 2) },
  at: 33,
  hit: { output: isIn(70, 33) },
};
