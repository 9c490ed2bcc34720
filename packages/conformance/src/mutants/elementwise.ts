import { BackendError, dtypeBytes } from "@backplane/core";
import { binaryFunctions } from "../reference/elementwise.js";
import { load, storeInto } from "../reference.js";
import { mapped, replaced, replacedFunction, tampered, throughEnd } from "./build.js";
import { altered } from "./faulty-backends.js";
import type { Mutant } from "./mutant.js";

const f32 = Math.fround;

/** Defects of unary and binary, and of a backend's declarations. */
export const elementwiseMutants: readonly Mutant[] = [
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
          store(i, values[i + 1]!, 0);
          store(i + 1, values[i]!, 0);
        }
      }),
  },
  {
    name: "rounds n up to a vector",
    operation: "binary",
    defect: "edge",
    description: "Stores whole vectors of four at the end.",
    killedBy: [
      "binary f32: touches nothing but the elements of its output",
      "binary f16: touches nothing but the elements of its output",
    ],
    create: () =>
      replaced("binary", (p, run) => {
        run(p);
        const store = storeInto(throughEnd(p.output, p.dtype), p.dtype);
        for (let i = p.n; i % 4 !== 0; i++) store(i, 0, 0);
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
    name: "rounds halves away from zero",
    operation: "unary",
    defect: "numerics",
    description: "round(2.5) = 3.",
    killedBy: ["unary f32: round: stays within its error bound"],
    create: () => replacedFunction("round", (x) => Math.sign(x) * Math.round(Math.abs(x))),
  },
  {
    name: "gives no power of a negative number",
    operation: "binary",
    defect: "numerics",
    description: "exp2(b log2 a) without a thought for the sign of a.",
    killedBy: ["binary f32: pow: stays within its error bound"],
    create: () =>
      replaced("binary", (p, run) => {
        const noSign = (x: number) => (x < 0 ? Number.NaN : x);
        if (p.kind !== "pow" || !("region" in p.a)) return run(p);
        run({ ...p, a: { ...p.a, region: mapped(p.a.region, p.dtype, noSign) } });
      }),
  },
  {
    name: "broadcasts by repetition only",
    operation: "binary",
    defect: "stride",
    description: "Takes element i modulo the size of b: right for a row, wrong for a column.",
    killedBy: ["binary f32: broadcasts as NumPy does", "binary f32: broadcasts larger shapes"],
    create: () =>
      replaced("binary", (p, run) => {
        if (!("region" in p.a) || !("region" in p.b)) return run(p);
        const [a, b] = [load(p.a.region, p.dtype), load(p.b.region, p.dtype)];
        const store = storeInto(p.output, p.dtype);
        const apply = binaryFunctions[p.kind];
        for (let i = 0; i < p.n; i++) store(i, apply(a[i % a.length]!, b[i % b.length]!), 0);
      }),
  },
  {
    name: "steps along the first axis as along the second",
    operation: "binary",
    defect: "stride",
    description: "Right where b follows the output or repeats along its last axis.",
    killedBy: [
      "binary f32: sub: stays within its error bound",
      "binary f32: mul: stays within its error bound",
    ],
    create: () =>
      tampered("binary", (p) => {
        if (!("region" in p.b) || p.shape.length < 3) return p;
        const [first, second, ...rest] = p.b.strides;
        const strides = first === 0 || second === 0 ? [second!, first!, ...rest] : p.b.strides;
        return { ...p, b: { ...p.b, strides } };
      }),
  },
  {
    name: "walks along eight axes only",
    operation: "binary",
    defect: "indexing",
    description: "A kernel with so many loops, and shapes with more axes.",
    killedBy: ["binary f32: broadcasts any number of axes", "binary f16: broadcasts any number of axes"],
    create: () =>
      tampered("binary", (p) => {
        if (!("region" in p.b)) return p;
        const outer = p.shape.length - 8;
        return { ...p, b: { ...p.b, strides: p.b.strides.map((stride, i) => (i < outer ? 0 : stride)) } };
      }),
  },
  {
    name: "ends at the largest number",
    operation: "binary",
    defect: "numerics",
    description: "Saturates where it should overflow, though it declares infinities kept.",
    killedBy: [
      "numerics f32: binary: takes and gives infinities, and overflows to them",
      "numerics f16: binary: takes and gives infinities, and overflows to them",
    ],
    create: () =>
      replaced("binary", (p, run) => {
        run(p);
        if (p.kind !== "add" && p.kind !== "mul") return;
        const largest = p.dtype === "f32" ? 2 ** 128 - 2 ** 104 : 65504;
        const store = storeInto(p.output, p.dtype);
        for (const [i, y] of load(p.output, p.dtype).entries())
          if (Math.abs(y) === Number.POSITIVE_INFINITY) store(i, Math.sign(y) * largest, 0);
      }),
  },
  {
    name: "swaps a scalar with the other operand",
    operation: "binary",
    defect: "indexing",
    description: "2 - x computed as x - 2.",
    killedBy: ["binary f32: takes a scalar for either operand"],
    create: () => tampered("binary", (p) => ("scalar" in p.a ? { ...p, a: p.b, b: p.a } : p)),
  },
  {
    name: "cuts sums off instead of rounding them",
    operation: "binary",
    defect: "numerics",
    description: "Rounds towards zero, though it declares rounding to nearest.",
    killedBy: ["binary f32: add: stays within its error bound"],
    create: () =>
      replaced("binary", (p, run) => {
        run(p);
        if (p.kind !== "add" || p.dtype !== "f32" || !("region" in p.a) || !("region" in p.b)) return;
        if (p.shape.length !== 1 || p.a.strides[0] !== 1 || p.b.strides[0] !== 1) return;
        const [a, b] = [load(p.a.region, p.dtype), load(p.b.region, p.dtype)];
        const store = storeInto(p.output, p.dtype);
        for (let i = 0; i < p.n; i++) {
          const sum = a[i]! + b[i]!;
          const isAway = Math.abs(f32(sum)) > Math.abs(sum);
          store(i, isAway ? f32(sum) * (1 - 2 ** -24) : sum, 0);
        }
      }),
  },
  {
    name: "flushes subnormal numbers",
    operation: "binary",
    defect: "numerics",
    description: "Though it declares them kept.",
    killedBy: ["numerics f32: binary: reads and writes subnormal numbers"],
    create: () =>
      replaced("binary", (p, run) => {
        run(p);
        const store = storeInto(p.output, p.dtype);
        for (const [i, y] of load(p.output, p.dtype).entries())
          if (y !== 0 && Math.abs(y) < 2 ** -126) store(i, 0, 0);
      }),
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
        if (hit >= 0) storeInto(p.output, p.dtype)(hit ^ 1, Number.NaN, 0);
      }),
  },
  {
    name: "declares what it does not compute",
    operation: "unary",
    defect: "errors",
    description: "supports() is true, and the call throws.",
    killedBy: [
      "unary f32: erf: stays within its error bound",
      "unary f32: touches nothing but n elements of its output",
    ],
    create: () =>
      altered((right) => ({
        unary(args) {
          if (args.kind === "erf")
            throw new BackendError("UNSUPPORTED", "unary: erf", { operation: "unary" });
          right.unary(args);
        },
      })),
  },
  {
    name: "computes what it does not declare",
    operation: "reduce",
    defect: "errors",
    description: "supports() is false, and yet the call goes through.",
    killedBy: ["supports: reduce in f32: declared calls work, undeclared ones throw UNSUPPORTED"],
    create: () =>
      altered((right) => ({
        supports: (operation, question) => question?.kind !== "prod" && right.supports(operation, question),
      })),
  },
];
