import { type FloatUnaryKind, isTest } from "@backplane/core";
import { load, storeInto } from "../elements.js";
import { binaryFunctions, unaryFunctions } from "../functions.js";
import type { Builder, Mutant } from "../mutant.js";
import { evaluateAs } from "../ops/binary/index.js";
import { referenceMemory } from "../ops/operation.js";
import { ulp } from "../tolerance.js";

const f32 = Math.fround;

function ofUnits(kind: string, dtype = "f32"): string {
  return `accuracy ${dtype}: ${kind}: stays within its declared units at every exponent`;
}

/** Returns a number that is this many units of f32 from another one. */
function off(y: number, units: number): number {
  return y + units * ulp(y);
}

/** Defects of single functions that the least bounds of all backends let pass. */
export const accuracyMutants = ({ replaced, replacedFunction, altered }: Builder): readonly Mutant[] => [
  {
    name: "gives no sine of small angles",
    operation: "unary",
    defect: "numerics",
    description: "0 for |x| < 4e-4, which WGSL allows: it asks for 2^-11 and no more.",
    killedBy: [ofUnits("sin"), ofUnits("sin", "f16")],
    create: () => replacedFunction("sin", (x) => (Math.abs(x) < 4e-4 ? x * 0 : Math.sin(x))),
  },
  {
    name: "loses digits of pi for large angles",
    operation: "unary",
    defect: "numerics",
    description: "Takes off multiples of a 2 pi of 53 bits. WGSL says nothing beyond pi.",
    killedBy: [ofUnits("cos")],
    create: () => replacedFunction("cos", (x) => Math.cos(x - 2 * Math.PI * Math.round(x / (2 * Math.PI)))),
  },
  {
    name: "is off where exp is large",
    operation: "unary",
    defect: "numerics",
    description: "Four units, for arguments near 80 only, where WGSL grants 160.",
    killedBy: [ofUnits("exp")],
    create: () => replacedFunction("exp", (x) => off(Math.exp(x), x > 79 && x < 81 ? 4 : 0)),
  },
  {
    name: "takes f for log(1 + f) too far from 1",
    operation: "unary",
    defect: "numerics",
    description: "Up to f = 1e-5, which is off by 40 units there.",
    killedBy: [ofUnits("log")],
    create: () => replacedFunction("log", (x) => (Math.abs(x - 1) < 1e-5 ? x - 1 : Math.log(x))),
  },
  {
    name: "lets the exponent of geluTanh be rounded",
    operation: "unary",
    defect: "numerics",
    description: "190 units near 1e-34. Seen in this project.",
    killedBy: [ofUnits("geluTanh")],
    create: () =>
      replacedFunction("geluTanh", (x) => {
        const y = unaryFunctions.geluTanh(x);
        return x < -5 && y > -1e-33 && y < -1e-35 ? off(y, 190) : y;
      }),
  },
  {
    name: "has a seam in tanh",
    operation: "unary",
    defect: "numerics",
    description: "Two formulas meet at 4, each within its two units, and tanh falls from one to the other.",
    killedBy: ["accuracy f32: functions rise and fall to within their units"],
    create: () =>
      replacedFunction(
        "tanh",
        (x) => {
          const units = Math.abs(x) < 3.5 || Math.abs(x) > 4.5 ? 0 : Math.abs(x) < 4 ? 1.5 : -1.5;
          return Math.sign(x) * off(Math.tanh(Math.abs(x)), units);
        },
        2,
      ),
  },
  {
    name: "forgets the sign of small numbers in erf",
    operation: "unary",
    defect: "numerics",
    description: "erf(-1e-7) = erf(1e-7): an even function round 0, well within 2^-20.",
    killedBy: [ofUnits("erf"), "accuracy f32: odd and even functions are so bit for bit"],
    create: () => replacedFunction("erf", (x) => unaryFunctions.erf(Math.abs(x) < 1e-6 ? Math.abs(x) : x)),
  },
  {
    name: "rounds sines of negative angles another way",
    operation: "unary",
    defect: "numerics",
    description: "Always down: within the two units that it declares, but sin(-x) is not -sin(x).",
    killedBy: ["accuracy f32: odd and even functions are so bit for bit"],
    create: () => replacedFunction("sin", (x) => f32(off(Math.sin(x), -0.5)), 2),
  },
  {
    name: "gives probabilities above 1",
    operation: "unary",
    defect: "numerics",
    description: "A sigmoid within its two units, also where these lead beyond 1. Seen on a GPU, in tanh.",
    killedBy: ["accuracy f32: functions stay inside of their range"],
    create: () =>
      replacedFunction("sigmoid", (x) => off(unaryFunctions.sigmoid(x), x === 0 || x > 90 ? 0 : 1), 2),
  },
  {
    name: "makes nearly one of exp(0)",
    operation: "unary",
    defect: "numerics",
    description: "0.99999994, within the two units that it declares.",
    killedBy: ["accuracy f32: functions are exact at points such as exp(0) = 1"],
    create: () => replacedFunction("exp", (x) => Math.exp(x) * (1 - 2 ** -24), 2),
  },
  {
    name: "makes nearly x of x^1",
    operation: "binary",
    defect: "numerics",
    description: "2^(b log2 a) with the logarithm in f32, though within the 200 units that it declares.",
    killedBy: ["accuracy f32: powers are exact where x^1 = x, x^0 = 1, 1^y = 1"],
    create: () => {
      const power = (a: number, b: number) =>
        a > 0 ? 2 ** (b * f32(Math.log2(a))) : binaryFunctions.pow(a, b);
      return replaced(
        "binary",
        (p, run) => (p.kind === "pow" ? evaluateAs(power, p, referenceMemory) : run(p)),
        { binary: { pow: 200 } },
      );
    },
  },
  {
    name: "declares half a unit and keeps two",
    operation: "unary",
    defect: "numerics",
    description: "x / (1 + e^-x) in f32, step by step.",
    killedBy: [ofUnits("silu")],
    create: () => replacedFunction("silu", (x) => f32(x / f32(1 + f32(Math.exp(-x))))),
  },
  {
    name: "cuts f16 results off instead of rounding them",
    operation: "unary",
    defect: "numerics",
    description: "Towards zero, as some conversions do.",
    killedBy: [ofUnits("sigmoid", "f16"), ofUnits("sqrt", "f16")],
    create: () =>
      replaced("unary", (p, run) => {
        run(p);
        if (p.dtype !== "f16" || isTest(p.kind)) return;
        const store = storeInto(p.output, p.dtype);
        for (const [i, x] of load(p.input, p.dtype).entries()) {
          const y = unaryFunctions[p.kind as FloatUnaryKind](x);
          const spacing = 2 ** (Math.max(Math.floor(Math.log2(Math.abs(y))), -14) - 10);
          if (Number.isFinite(y) && y !== 0) store(i, Math.trunc(y / spacing) * spacing);
        }
      }),
  },
  {
    name: "declares nothing of large arguments",
    operation: "unary",
    defect: "errors",
    description: "The last range of a declaration ends, and what lies beyond has no bound.",
    killedBy: ["lifecycle: capabilities are complete after init"],
    create: () =>
      altered((right) => ({
        get capabilities() {
          return { ...right.capabilities, accuracy: { unary: { sin: [{ below: 6000, units: 0.5 }] } } };
        },
      })),
  },
];
