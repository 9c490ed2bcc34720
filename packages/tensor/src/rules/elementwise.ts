import type { BinaryKind, UnaryKind } from "@backplane/core";
import type { NumberOperands } from "../ops/elementwise.js";
import { type Tensor, where } from "../tensor.js";
import { type Rule, rule, sumTo } from "./rule.js";

/** The gradient at x of y = f(x), from the one at y. */
type OfInput = (g: Tensor, x: Tensor) => Tensor;
type OfOutput = (g: Tensor, y: Tensor) => Tensor;

function byInput(derive: OfInput): Rule {
  return rule({ inputs: [0] }, (context) => [derive(context.gradient, context.input(0))]);
}

function byOutput(derive: OfOutput): Rule {
  return rule({ output: true }, (context) => [derive(context.gradient, context.output())]);
}

/** Of functions with steps: 0 wherever there is a derivative. */
const flat: Rule = rule({}, () => [undefined]);

/** 1 - x */
function oneMinus(x: Tensor): Tensor {
  return x.binaryFrom("sub", 1);
}

/** Of a function that gives no floats, or takes none: it has no derivative. */
export type NoRule = undefined;

const c = Math.sqrt(2 / Math.PI);

/** The derivative of x / 2 (1 + tanh(u)), u = c (x + 0.044715 x^3). */
function geluTanhSlope(x: Tensor): Tensor {
  const squares = x.square();
  const t = squares.mul(0.044715).add(1).mul(x).mul(c).tanh();
  const inner = squares
    .mul(3 * 0.044715)
    .add(1)
    .mul(c);
  return t.add(1).add(oneMinus(t.square()).mul(inner).mul(x)).mul(0.5);
}

/** The derivative of x P(x), where P is the distribution function of the normal distribution: P + x P'. */
function geluSlope(x: Tensor): Tensor {
  const distribution = x.mul(Math.SQRT1_2).unary("erf").add(1).mul(0.5);
  const density = x
    .square()
    .mul(-0.5)
    .exp()
    .mul(1 / Math.sqrt(2 * Math.PI));
  return distribution.add(density.mul(x));
}

/** s (1 + x (1 - s)) with s = sigmoid(x) */
function siluSlope(x: Tensor): Tensor {
  const s = x.sigmoid();
  return oneMinus(s).mul(x).add(1).mul(s);
}

export const unaryRules: Readonly<Record<UnaryKind, Rule | NoRule>> = {
  relu: byOutput((g, y) => where(y.greater(0), g, 0)),
  relu6: byOutput((g, y) => where(y.greater(0), where(y.less(6), g, 0), 0)),
  sigmoid: byOutput((g, y) => g.mul(oneMinus(y)).mul(y)),
  tanh: byOutput((g, y) => g.mul(oneMinus(y.square()))),
  exp: byOutput((g, y) => g.mul(y)),
  expm1: byOutput((g, y) => g.mul(y.add(1))),
  exp2: byOutput((g, y) => g.mul(y).mul(Math.LN2)),
  log: byInput((g, x) => g.div(x)),
  log1p: byInput((g, x) => g.div(x.add(1))),
  log2: byInput((g, x) => g.div(x.mul(Math.LN2))),
  sqrt: byOutput((g, y) => g.div(y).mul(0.5)),
  rsqrt: byOutput((g, y) => g.mul(y.square()).mul(y).mul(-0.5)),
  reciprocal: byOutput((g, y) => g.mul(y.square()).neg()),
  abs: byInput((g, x) => g.mul(x.unary("sign"))),
  neg: rule({}, ({ gradient }) => [gradient.neg()]),
  square: byInput((g, x) => g.mul(x).mul(2)),
  sin: byInput((g, x) => g.mul(x.cos())),
  cos: byInput((g, x) => g.mul(x.sin()).neg()),
  tan: byOutput((g, y) => g.mul(y.square().add(1))),
  asin: byInput((g, x) => g.mul(oneMinus(x.square()).unary("rsqrt"))),
  acos: byInput((g, x) => g.mul(oneMinus(x.square()).unary("rsqrt")).neg()),
  atan: byInput((g, x) => g.div(x.square().add(1))),
  sinh: byInput((g, x) => g.mul(x.unary("cosh"))),
  cosh: byInput((g, x) => g.mul(x.unary("sinh"))),
  asinh: byInput((g, x) => g.mul(x.square().add(1).unary("rsqrt"))),
  acosh: byInput((g, x) => g.mul(x.square().sub(1).unary("rsqrt"))),
  atanh: byInput((g, x) => g.div(oneMinus(x.square()))),
  floor: flat,
  ceil: flat,
  round: flat,
  trunc: flat,
  sign: flat,
  erf: byInput((g, x) => g.mul(x.square().neg().exp()).mul(2 / Math.sqrt(Math.PI))),
  gelu: byInput((g, x) => g.mul(geluSlope(x))),
  geluTanh: byInput((g, x) => g.mul(geluTanhSlope(x))),
  silu: byInput((g, x) => g.mul(siluSlope(x))),
  softplus: byInput((g, x) => g.mul(x.sigmoid())),
  isNaN: undefined,
  isInfinite: undefined,
  isFinite: undefined,
  logicalNot: undefined,
  not: undefined,
};

type Operand = Tensor | number;

/** Both operands of a function, its result, and the gradient there. */
interface Pair {
  readonly g: Tensor;
  readonly a: Operand;
  readonly b: Operand;
}

type OfOperand = (pair: Pair) => Tensor | undefined;

/** A rule from the derivatives at both operands, either of which may be a number, and may have been repeated. */
function pair(
  kept: readonly (0 | 1)[],
  atA: OfOperand,
  atB: OfOperand,
  isLinear = false,
): Rule<NumberOperands> {
  // The derivative of a x does not depend on x.
  const inputs = ({ a, b }: NumberOperands): readonly number[] =>
    isLinear && (a !== undefined || b !== undefined) ? [] : kept;
  return rule<NumberOperands>({ inputs }, (context) => {
    const { a: numberA, b: numberB } = context.attributes;
    const tensorAt = (place: 0 | 1): Tensor => {
      const i = numberA === undefined ? place : 0;
      // What a rule does not keep, it does not use either.
      return inputs(context.attributes).includes(place) ? context.input(i) : context.gradient;
    };
    const operands: Pair = { g: context.gradient, a: numberA ?? tensorAt(0), b: numberB ?? tensorAt(1) };
    const results: (Tensor | undefined)[] = [];
    for (const [derive, number] of [
      [atA, numberA],
      [atB, numberB],
    ] as const) {
      if (number !== undefined) continue;
      const i = results.length;
      const gradient = context.needs(i) ? derive(operands) : undefined;
      results.push(gradient && sumTo(gradient, context.shapeOf(i)));
    }
    return results;
  });
}

function binary(kind: BinaryKind, a: Operand, b: Operand): Tensor {
  if (typeof a !== "number") return a.binary(kind, b);
  return typeof b === "number" ? never() : b.binaryFrom(kind, a);
}

function never(): never {
  throw new Error("internal: an operation of two numbers was recorded");
}

/** Where one of both is larger, it gets the gradient; equal ones share it. */
function extreme(kind: "greater" | "less"): Rule<NumberOperands> {
  const share = (g: Tensor, first: Operand, second: Operand): Tensor =>
    where(binary(kind, first, second), g, where(binary("equal", first, second), g.mul(0.5), 0));
  return pair(
    [0, 1],
    ({ g, a, b }) => share(g, a, b),
    ({ g, a, b }) => share(g, b, a),
  );
}

const none = (): undefined => undefined;

export const binaryRules: Readonly<Record<BinaryKind, Rule<NumberOperands> | NoRule>> = {
  add: pair(
    [],
    ({ g }) => g,
    ({ g }) => g,
  ),
  sub: pair(
    [],
    ({ g }) => g,
    ({ g }) => g.neg(),
  ),
  mul: pair(
    [0, 1],
    ({ g, b }) => g.mul(b),
    ({ g, a }) => g.mul(a),
    true,
  ),
  div: pair(
    [0, 1],
    ({ g, b }) => g.div(b),
    ({ g, a, b }) => binary("div", binary("div", g.mul(a), b), b).neg(),
  ),
  max: extreme("greater"),
  min: extreme("less"),
  mod: pair(
    [0, 1],
    ({ g }) => g,
    ({ g, a, b }) => g.mul(binary("div", a, b).unary("floor")).neg(),
  ),
  rem: pair(
    [0, 1],
    ({ g }) => g,
    ({ g, a, b }) => g.mul(binary("div", a, b).unary("trunc")).neg(),
  ),
  floorDiv: pair([], none, none),
  atan2: pair(
    [0, 1],
    ({ g, a, b }) => binary("div", g.mul(b), squares(a, b)),
    ({ g, a, b }) => binary("div", g.mul(a), squares(a, b)).neg(),
  ),
  // b a^(b - 1), but 0 where b is 0; and a^b ln(a), but 0 where a is not above 0.
  pow: pair(
    [0, 1],
    ({ g, a, b }) => {
      if (typeof b === "number") return b === 0 ? undefined : g.mul(binary("pow", a, b - 1)).mul(b);
      return where(b.equal(0), 0, g.mul(binary("pow", a, b.sub(1))).mul(b));
    },
    ({ g, a, b }) => {
      const logarithm = typeof a === "number" ? Math.log(a) : where(a.greater(0), a, 1).log();
      return typeof a === "number" && a <= 0 ? undefined : g.mul(binary("pow", a, b)).mul(logarithm);
    },
  ),
  equal: undefined,
  notEqual: undefined,
  less: undefined,
  lessEqual: undefined,
  greater: undefined,
  greaterEqual: undefined,
  and: undefined,
  or: undefined,
  xor: undefined,
  shl: undefined,
  shr: undefined,
  logicalAnd: undefined,
  logicalOr: undefined,
  logicalXor: undefined,
};

/** a^2 + b^2 */
function squares(a: Operand, b: Operand): Tensor {
  const square = (x: Operand): Operand => (typeof x === "number" ? x * x : x.square());
  return binary("add", square(a), square(b));
}
