import { BackendError, dtypeBytes } from "@backplane/core";
import { load, storeInto } from "../../elements.js";
import { throughEnd } from "../../kit/regions.js";
import type { Builder, Mutant } from "../../mutant.js";

const f32 = Math.fround;

/** Defects of unary. */
export const unaryMutants = ({
  tampered,
  replaced,
  replacedFunction,
  altered,
}: Builder): readonly Mutant[] => [
  {
    name: "ignores n",
    operation: "unary",
    defect: "edge",
    description: "Works to the end of the allocations.",
    killedBy: ["unary f32: touches nothing but n elements of its output"],
    create: () =>
      tampered("unary", (p) => {
        const [input, output] = [throughEnd(p.input, p.dtype), throughEnd(p.output, p.dtype)];
        const n = Math.min(input.byteLength, output.byteLength) / dtypeBytes[p.dtype];
        return { ...p, n, input, output };
      }),
  },
  {
    name: "stops where one side of a grid ends",
    operation: "unary",
    defect: "edge",
    description: "65,535 workgroups of 64; nothing is said of the rest.",
    killedBy: ["reach: unary: millions of elements are all computed"],
    create: () => tampered("unary", (p) => ({ ...p, n: Math.min(p.n, 65_535 * 64) })),
  },
  {
    name: "reads from whole vectors only",
    operation: "unary",
    defect: "stride",
    description: "The place of the input is rounded down to a multiple of 16 bytes.",
    killedBy: [
      "unary f32: relu: stays within its error bound",
      "unary f32: sigmoid: stays within its error bound",
    ],
    create: () =>
      tampered("unary", (p) => {
        const byteOffset = p.input.byteOffset - (p.input.byteOffset % 16);
        return { ...p, input: { ...p.input, byteOffset } };
      }),
  },
  {
    name: "mixes up the halves of a word",
    operation: "unary",
    defect: "indexing",
    description: "Two f16 share a word; where the output begins in the middle of one, each is the other's.",
    killedBy: [
      "unary f16: relu: stays within its error bound",
      "unary f16: sigmoid: stays within its error bound",
    ],
    create: () =>
      replaced("unary", (p, run) => {
        run(p);
        if (p.dtype !== "f16" || p.output.byteOffset % 4 === 0 || p.n < 2) return;
        const values = load(p.output, p.dtype);
        const store = storeInto(p.output, p.dtype);
        for (let i = 0; i + 1 < p.n; i += 2) {
          store(i, values[i + 1]!);
          store(i + 1, values[i]!);
        }
      }),
  },
  {
    name: "computes tanh from exponentials near 0",
    operation: "unary",
    defect: "numerics",
    description: "Seen in a WebAssembly library: off by 1.3% at 1e-6.",
    killedBy: ["unary f32: tanh: stays within its error bound"],
    create: () =>
      replacedFunction("tanh", (x) => {
        const e = f32(Math.exp(2 * Math.max(-40, Math.min(40, x))));
        return f32(f32(e - 1) / f32(e + 1));
      }),
  },
  {
    name: "lets exp overflow early",
    operation: "unary",
    defect: "numerics",
    description: "Seen in a WebAssembly library: exp(88.5) is Infinity, though f32 holds it.",
    killedBy: ["unary f32: exp: stays within its error bound"],
    create: () => replacedFunction("exp", (x) => (x > 88 ? Number.POSITIVE_INFINITY : Math.exp(x))),
  },
  {
    name: "takes sigmoid literally in silu",
    operation: "unary",
    defect: "numerics",
    description: "x e^x / (1 + e^x), which is NaN where the exponential overflows.",
    killedBy: ["unary f32: silu: stays within its error bound"],
    create: () => replacedFunction("silu", (x) => (x * f32(Math.exp(x))) / f32(1 + f32(Math.exp(x)))),
  },
  {
    name: "computes softplus from a literal logarithm",
    operation: "unary",
    defect: "numerics",
    description: "log(1 + e^x) in f32, which is 0 from x = -17 down.",
    killedBy: ["unary f32: softplus: stays within its error bound"],
    create: () =>
      replacedFunction("softplus", (x) => Math.max(x, 0) + Math.log(f32(1 + f32(Math.exp(-Math.abs(x)))))),
  },
  {
    name: "computes gelu from tanh",
    operation: "unary",
    defect: "numerics",
    description: "The approximation in place of the exact function.",
    killedBy: ["unary f32: gelu: stays within its error bound"],
    create: () =>
      replacedFunction(
        "gelu",
        (x) => x / (1 + Math.exp(-2 * Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
      ),
  },
  {
    name: "adds 1 before the logarithm",
    operation: "unary",
    defect: "numerics",
    description: "log(1 + x) in f32, which is 0 for small x.",
    killedBy: ["unary f32: log1p: stays within its error bound"],
    create: () => replacedFunction("log1p", (x) => Math.log(f32(1 + x))),
  },
  {
    name: "squares before it subtracts in acosh",
    operation: "unary",
    defect: "numerics",
    description: "log(x + sqrt(x^2 - 1)) in f32, which loses half the digits near 1.",
    killedBy: ["unary f32: acosh: stays within its error bound"],
    create: () => replacedFunction("acosh", (x) => Math.log(f32(x + f32(Math.sqrt(f32(f32(x * x) - 1)))))),
  },
  {
    name: "takes the bits of true for false",
    operation: "unary",
    defect: "numerics",
    description: "Turns the last bit: right for 0 and 1.",
    killedBy: ["unary u8: logicalNot: is exact"],
    create: () =>
      replaced("unary", (p, run) => {
        if (p.kind !== "logicalNot") return run(p);
        const store = storeInto(p.output, p.dtype);
        for (const [i, x] of load(p.input, p.dtype).entries()) store(i, (x ^ 1) & 1);
      }),
  },
  {
    name: "takes an infinity for a NaN",
    operation: "unary",
    defect: "edge",
    description: "x - x is not 0 for either.",
    killedBy: ["numerics f32: unary: tests tell infinities from numbers"],
    create: () =>
      replaced("unary", (p, run) => {
        if (p.kind !== "isNaN") return run(p);
        const store = storeInto(p.output, "u8");
        for (const [i, x] of load(p.input, p.dtype).entries()) store(i, Number(Number.isNaN(x - x)));
      }),
  },
  {
    name: "rounds halves away from zero",
    operation: "unary",
    defect: "numerics",
    description: "round(2.5) = 3.",
    killedBy: ["unary f32: round: stays within its error bound"],
    create: () => replacedFunction("round", (x) => Math.sign(x) * Math.round(Math.abs(x))),
  },
  {
    name: "loses the sign of zero",
    operation: "unary",
    defect: "numerics",
    description: "0 - x for -x, though it declares signed zeros kept.",
    killedBy: [
      "numerics f32: unary: keeps the sign of zeros",
      "numerics f16: unary: keeps the sign of zeros",
    ],
    create: () => replacedFunction("neg", (x) => 0 - x),
  },
  {
    name: "lets a NaN spread",
    operation: "unary",
    defect: "numerics",
    description: "A lane's NaN reaches its neighbours, through a product with 0.",
    killedBy: [
      "numerics f32: unary: a NaN reaches the results that depend on it, where NaN is kept, and no others",
    ],
    create: () =>
      replaced("unary", (p, run) => {
        const values = load(p.input, p.dtype);
        run(p);
        const hit = values.findIndex((x) => Number.isNaN(x));
        if (hit >= 0) storeInto(p.output, p.dtype)(hit ^ 1, Number.NaN);
      }),
  },
  {
    name: "declares what it does not compute",
    operation: "unary",
    defect: "errors",
    description: "supports() is true, and the call throws.",
    killedBy: ["unary f32: erf: stays within its error bound"],
    create: () =>
      altered((right) => ({
        unary(args) {
          if (args.kind === "erf")
            throw new BackendError("UNSUPPORTED", "unary: erf", { operation: "unary" });
          right.unary(args);
        },
      })),
  },
];
