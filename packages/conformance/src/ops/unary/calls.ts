import { countUp, isIn } from "../../kit/values.js";
import type { Call, PoisonedCall, SmallCall } from "../operation.js";

export const small: SmallCall = {
  operands: { input: 7, output: 7 },
  rest: { kind: "neg", n: 7 },
  inPlace: ["input"],
  malformed: [],
  nothing: [{ n: 0 }],
  tooLarge: [["input", { n: 1000 }]],
};

export const inPlace = (n: number): Call => ({
  operands: { input: n, output: n },
  rest: { kind: "neg", n },
});

export const medium: Call = inPlace(20_001);

export const poisoned: PoisonedCall = {
  rest: { kind: "neg", n: 70 },
  inputs: { input: countUp(70) },
  at: 33,
  hit: { output: isIn(70, 33) },
};
