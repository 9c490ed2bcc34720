import type { UnaryKind } from "@backplane/core";
import { backend_util, type TensorInfo } from "@tensorflow/tfjs-core";
import { elementwise } from "./elementwise.js";
import { floatFunctions, type HostFunction, mapFew, wholeFunctions } from "./few.js";
import { type Expression, formula, type Node } from "./formula.js";
import type { Call, Kernels } from "./kernel.js";

type UnaryCall<Attributes = unknown> = Call<"x", Attributes>;

/** A function of floats: integers and truth values become floats before. */
function ofFloats(kind: UnaryKind): (call: UnaryCall) => TensorInfo {
  return expression((e, x) => e.unary(kind, x), undefined, floatFunctions[kind]);
}

/** A function that integers have too. Truth values become integers. */
function ofNumbers(kind: UnaryKind): (call: UnaryCall) => TensorInfo {
  const onDevice = numberExpression((e, x) => e.unary(kind, x));
  return (call) => {
    const { x } = call.inputs;
    const { backend } = call;
    const dtype = numberType(x);
    const few = mapFew(backend, x, dtype, (dtype === "float32" ? floatFunctions : wholeFunctions)[kind]);
    return few ?? onDevice(call);
  };
}

/** The type in which there is arithmetic: bool has none. */
function numberType({ dtype }: TensorInfo): "float32" | "int32" {
  return dtype === "float32" ? "float32" : "int32";
}

/** A test of floats, which whole numbers pass or fail all alike. */
function test(kind: UnaryKind, ofWhole: 0 | 1): (call: UnaryCall) => TensorInfo {
  const built = formula((e, x) => e.unary(kind, x!));
  return ({ inputs: { x }, backend }) =>
    x.dtype === "float32"
      ? elementwise(backend, "bool", [x], built, x.shape)
      : backend.make(x.shape, "bool", ofWhole);
}

/** An expression of x and of numbers among the attributes. */
type BuildUnary = (e: Expression, x: Node, ...numbers: Node[]) => Node;

type NumbersOf<Attributes> = (attrs: Attributes) => readonly number[];

const none: readonly number[] = [];

/** An expression of floats. `onHost`: the same function there. */
function expression<Attributes>(
  build: BuildUnary,
  numbersOf: NumbersOf<Attributes> = () => none,
  onHost?: HostFunction,
): (call: UnaryCall<Attributes>) => TensorInfo {
  const built = formula((e, x, ...numbers) => build(e, e.convert("f32", x!), ...numbers));
  return ({ inputs: { x }, attrs, backend }) => {
    const values = numbersOf(attrs);
    const few = mapFew(backend, x, "float32", onHost, values);
    return few ?? elementwise(backend, "float32", [x], built, x.shape, { values });
  };
}

/**
 * An expression of floats or of integers: the result has the type of the input, and so have the numbers. `onHost`: the same
 * function there.
 */
function numberExpression<Attributes>(
  build: BuildUnary,
  numbersOf: NumbersOf<Attributes> = () => none,
  onHost?: HostFunction,
): (call: UnaryCall<Attributes>) => TensorInfo {
  const built = formula((e, x, ...numbers) =>
    build(e, x!.type === "u8" ? e.convert("i32", x!) : x!, ...numbers),
  );
  return ({ inputs: { x }, attrs, backend }) => {
    const given = numbersOf(attrs);
    const dtype = numberType(x);
    const values = dtype === "float32" ? given : given.map(wholeNumber);
    const few = mapFew(backend, x, dtype, onHost, values);
    if (few !== undefined) return few;
    const type = dtype === "float32" ? "f32" : "i32";
    return elementwise(backend, dtype, [x], built, x.shape, { values, type });
  };
}

/** The int32 that is nearest to a number without its fraction. */
function wholeNumber(value: number): number {
  return Math.min(Math.max(Math.trunc(value), -(2 ** 31)), 2 ** 31 - 1) + 0;
}

interface Limits {
  readonly clipValueMin: number;
  readonly clipValueMax: number;
}

/** Whether a limit cuts anything off: an infinite one does not. */
function isLimit(limit: number): boolean {
  return Number.isFinite(Math.fround(limit));
}

const clip = numberExpression<Limits>(
  (e, x, least, most) => e.binary("min", e.binary("max", x, least!), most!),
  ({ clipValueMin, clipValueMax }) => [clipValueMin, clipValueMax],
  (x, least, most) => Math.min(Math.max(x, least!), most!),
);
const atLeast = numberExpression<Limits>(
  (e, x, least) => e.binary("max", x, least!),
  ({ clipValueMin }) => [clipValueMin],
  (x, least) => Math.max(x, least!),
);
const atMost = numberExpression<Limits>(
  (e, x, most) => e.binary("min", x, most!),
  ({ clipValueMax }) => [clipValueMax],
  (x, most) => Math.min(x, most!),
);
const unlimited = numberExpression<Limits>((_, x) => x);

const relu = ofFloats("relu");
const reluOfWhole = numberExpression((e, x) => e.binary("max", x, e.constant(0, x.type)));
const relu6 = ofFloats("relu6");
const relu6OfWhole = numberExpression((e, x) =>
  e.binary("min", e.binary("max", x, e.constant(0, x.type)), e.constant(6, x.type)),
);
const round = ofFloats("round");
const logicalNot = formula((e, x) => e.unary("logicalNot", e.truth(x!)));

const [scale, scaleAlpha] = [backend_util.SELU_SCALE, backend_util.SELU_SCALEALPHA];

export const unaryKernels: Kernels = {
  Acos: ofFloats("acos"),
  Acosh: ofFloats("acosh"),
  Asin: ofFloats("asin"),
  Asinh: ofFloats("asinh"),
  Atan: ofFloats("atan"),
  Atanh: ofFloats("atanh"),
  Cos: ofFloats("cos"),
  Cosh: ofFloats("cosh"),
  Erf: ofFloats("erf"),
  Exp: ofFloats("exp"),
  Expm1: ofFloats("expm1"),
  Log: ofFloats("log"),
  Log1p: ofFloats("log1p"),
  Reciprocal: ofFloats("reciprocal"),
  Rsqrt: ofFloats("rsqrt"),
  Sigmoid: ofFloats("sigmoid"),
  Sin: ofFloats("sin"),
  Sinh: ofFloats("sinh"),
  Softplus: ofFloats("softplus"),
  Sqrt: ofFloats("sqrt"),
  Tan: ofFloats("tan"),
  Tanh: ofFloats("tanh"),

  Abs: ofNumbers("abs"),
  Neg: ofNumbers("neg"),
  // Of NaN it is 0.
  Sign: numberExpression((e, x) =>
    x.type === "f32" ? e.select(e.unary("isNaN", x), e.constant(0), e.unary("sign", x)) : e.unary("sign", x),
  ),
  Square: ofNumbers("square"),

  Ceil: ofFloats("ceil"),
  Floor: ofFloats("floor"),
  Round: (call: UnaryCall) => {
    const { x } = call.inputs;
    return x.dtype === "float32" ? round(call) : call.backend.share(x, x.shape);
  },

  IsFinite: test("isFinite", 1),
  IsInf: test("isInfinite", 0),
  IsNan: test("isNaN", 0),

  LogicalNot: ({ inputs: { x }, backend }: UnaryCall) =>
    mapFew(backend, x, "bool", (value) => (value === 0 ? 1 : 0)) ??
    elementwise(backend, "bool", [x], logicalNot),

  Relu: (call: UnaryCall) => (call.inputs.x.dtype === "float32" ? relu : reluOfWhole)(call),
  Relu6: (call: UnaryCall) => (call.inputs.x.dtype === "float32" ? relu6 : relu6OfWhole)(call),
  ClipByValue: (call: UnaryCall<Limits>) => {
    const { clipValueMin, clipValueMax } = call.attrs;
    if (isLimit(clipValueMin)) return isLimit(clipValueMax) ? clip(call) : atLeast(call);
    return isLimit(clipValueMax) ? atMost(call) : unlimited(call);
  },

  Elu: expression(elu, undefined, (x) => (x >= 0 ? x : Math.expm1(x))),
  Selu: expression(
    (e, x) =>
      e.select(
        e.binary("greaterEqual", x, e.constant(0)),
        e.binary("mul", x, e.constant(scale)),
        e.binary("mul", e.unary("expm1", x), e.constant(scaleAlpha)),
      ),
    undefined,
    (x) => (x >= 0 ? scale * x : scaleAlpha * Math.expm1(x)),
  ),
  LeakyRelu: expression<{ alpha: number }>(
    (e, x, slope) => leakyRelu(e, x, slope!),
    ({ alpha }) => [alpha],
    (x, slope) => (x < 0 ? slope! * x : x),
  ),
  Step: numberExpression<{ alpha: number }>(
    (e, x, below) => {
      const isPositive = e.binary("greater", x, e.constant(0, x.type));
      const step = e.select(isPositive, e.constant(1, x.type), below!);
      return x.type === "f32" ? e.select(e.unary("isNaN", x), x, step) : step;
    },
    ({ alpha }) => [alpha],
  ),
};

/** x if it is at least 0, else e^x - 1. */
export function elu(e: Expression, x: Node): Node {
  return e.select(e.binary("greaterEqual", x, e.constant(0)), x, e.unary("expm1", x));
}

/** x if it is at least 0, else slope x. */
export function leakyRelu(e: Expression, x: Node, slope: Node): Node {
  return e.select(e.binary("less", x, e.constant(0)), e.binary("mul", slope, x), x);
}
