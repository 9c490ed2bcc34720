import type { UnaryKind } from "@backplane/core";
import { backend_util, type TensorInfo } from "@tensorflow/tfjs-core";
import type { DeviceType } from "../elements.js";
import { elementCount } from "../elements.js";
import { type Expression, elementwise, type Node } from "./elementwise.js";
import type { Call, Kernels } from "./kernel.js";

type UnaryCall<Attributes = unknown> = Call<"x", Attributes>;

/** A function of floats: integers and truth values become floats before. */
function ofFloats(kind: UnaryKind): (call: UnaryCall) => TensorInfo {
  return ({ inputs: { x }, backend }) => {
    if (x.dtype !== "float32")
      return elementwise(backend, "float32", [x], (e, node) => e.unary(kind, e.convert("f32", node)));
    const input = backend.place(x);
    const output = backend.output(x.shape, "float32");
    backend.compute.unary({ kind, n: elementCount(x.shape), input, output: output.handle });
    return output;
  };
}

/** A function that integers have too. Truth values become integers. */
function ofNumbers(kind: UnaryKind): (call: UnaryCall) => TensorInfo {
  return ({ inputs: { x }, backend }) => {
    const dtype = numberType(x);
    if (x.dtype === "bool")
      return elementwise(backend, dtype, [x], (e, node) => e.unary(kind, e.convert("i32", node)));
    const input = backend.place(x);
    const output = backend.output(x.shape, dtype);
    const type = dtype === "int32" ? "i32" : "f32";
    backend.compute.unary({ kind, n: elementCount(x.shape), input, output: output.handle, dtype: type });
    return output;
  };
}

/** The type in which there is arithmetic: bool has none. */
function numberType({ dtype }: TensorInfo): "float32" | "int32" {
  return dtype === "float32" ? "float32" : "int32";
}

/** A test of floats, which whole numbers pass or fail all alike. */
function test(kind: UnaryKind, ofWhole: 0 | 1): (call: UnaryCall) => TensorInfo {
  return ({ inputs: { x }, backend }) => {
    if (x.dtype !== "float32") return backend.make(x.shape, "bool", ofWhole);
    const input = backend.place(x);
    const output = backend.output(x.shape, "bool");
    backend.compute.unary({ kind, n: elementCount(x.shape), input, output: output.handle });
    return output;
  };
}

/** An expression of floats. */
function expression<Attributes>(
  build: (e: Expression, x: Node, attrs: Attributes) => Node,
): (call: UnaryCall<Attributes>) => TensorInfo {
  return ({ inputs: { x }, attrs, backend }) =>
    elementwise(backend, "float32", [x], (e, node) => build(e, e.convert("f32", node), attrs));
}

/** An expression of floats or of integers: the result has the type of the input. */
function numberExpression<Attributes>(
  build: (e: Expression, x: Node, number: (value: number) => Node, attrs: Attributes) => Node,
): (call: UnaryCall<Attributes>) => TensorInfo {
  return ({ inputs: { x }, attrs, backend }) => {
    const dtype: DeviceType = numberType(x);
    const type = dtype === "int32" ? "i32" : "f32";
    return elementwise(backend, dtype, [x], (e, node) => {
      const number = (value: number) => e.number(type === "i32" ? wholeNumber(value) : value, type);
      return build(e, e.convert(type, node), number, attrs);
    });
  };
}

/** The int32 that is nearest to a number without its fraction. */
function wholeNumber(value: number): number {
  return Math.min(Math.max(Math.trunc(value), -(2 ** 31)), 2 ** 31 - 1) + 0;
}

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
  Round: ({ inputs: { x }, attrs, backend }: UnaryCall) =>
    x.dtype === "float32" ? ofFloats("round")({ inputs: { x }, attrs, backend }) : backend.share(x, x.shape),

  IsFinite: test("isFinite", 1),
  IsInf: test("isInfinite", 0),
  IsNan: test("isNaN", 0),

  LogicalNot: ({ inputs: { x }, backend }: UnaryCall) =>
    elementwise(backend, "bool", [x], (e, node) => e.unary("logicalNot", e.truth(node))),

  Relu: (call: UnaryCall) => {
    if (call.inputs.x.dtype === "float32") return ofFloats("relu")(call);
    return numberExpression((e, x) => e.binary("max", x, e.constant(0, x.type)))(call);
  },
  Relu6: (call: UnaryCall) => {
    if (call.inputs.x.dtype === "float32") return ofFloats("relu6")(call);
    return numberExpression((e, x) =>
      e.binary("min", e.binary("max", x, e.constant(0, x.type)), e.constant(6, x.type)),
    )(call);
  },
  ClipByValue: numberExpression<{ clipValueMin: number; clipValueMax: number }>(
    (e, x, number, { clipValueMin, clipValueMax }) =>
      limited(e, "min", limited(e, "max", x, number, clipValueMin), number, clipValueMax),
  ),

  Elu: expression(elu),
  Selu: expression((e, x) => {
    const [scale, scaleAlpha] = [backend_util.SELU_SCALE, backend_util.SELU_SCALEALPHA];
    return e.select(
      e.binary("greaterEqual", x, e.constant(0)),
      e.binary("mul", x, e.constant(scale)),
      e.binary("mul", e.unary("expm1", x), e.constant(scaleAlpha)),
    );
  }),
  LeakyRelu: expression<{ alpha: number }>((e, x, { alpha }) => leakyRelu(e, x, e.number(alpha))),
  Step: numberExpression<{ alpha: number }>((e, x, number, { alpha }) => {
    const isPositive = e.binary("greater", x, e.constant(0, x.type));
    const step = e.select(isPositive, e.constant(1, x.type), number(alpha));
    return x.type === "f32" ? e.select(e.unary("isNaN", x), x, step) : step;
  }),
};

/** The larger or smaller one of x and a limit, which may be infinite: then it is none. */
function limited(
  e: Expression,
  kind: "max" | "min",
  x: Node,
  number: (value: number) => Node,
  limit: number,
): Node {
  return Number.isFinite(Math.fround(limit)) ? e.binary(kind, x, number(limit)) : x;
}

/** x if it is at least 0, else e^x - 1. */
export function elu(e: Expression, x: Node): Node {
  return e.select(e.binary("greaterEqual", x, e.constant(0)), x, e.unary("expm1", x));
}

/** x if it is at least 0, else slope x. */
export function leakyRelu(e: Expression, x: Node, slope: Node): Node {
  return e.select(e.binary("less", x, e.constant(0)), e.binary("mul", slope, x), x);
}
