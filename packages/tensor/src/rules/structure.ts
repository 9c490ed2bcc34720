import type { NumberOperands } from "../ops/elementwise.js";
import type { ScanAttributes } from "../ops/reductions.js";
import { place as placeOperation } from "../ops/views.js";
import { apply, type Tensor, where } from "../tensor.js";
import { axesOf, type Shape } from "../view/shape.js";
import type { Span } from "../view/tensor-view.js";
import { type Rule, rule, sumTo } from "./rule.js";

// Views and moves

export const reshape: Rule = rule({}, ({ gradient, shapeOf }) => [gradient.reshape(...shapeOf(0))]);

export const permute: Rule<{ readonly order: readonly number[] }> = rule(
  {},
  ({ gradient, attributes: { order } }) => {
    const inverse = new Array<number>(order.length);
    for (const [to, from] of order.entries()) inverse[from < 0 ? from + order.length : from] = to;
    return [gradient.permute(...inverse)];
  },
);

export const expand: Rule = rule({}, ({ gradient, shapeOf }) => [sumTo(gradient, shapeOf(0))]);

export const slice: Rule<{ readonly axis: number; readonly span: Span }> = rule(
  {},
  ({ gradient, attributes: { axis, span }, shapeOf }) => {
    const shape = shapeOf(0);
    return [
      apply(placeOperation, [gradient], { shape, spans: shape.map((_, i) => (i === axis ? span : {})) }),
    ];
  },
);

export const place: Rule<{ readonly spans: readonly Span[] }> = rule(
  {},
  ({ gradient, attributes: { spans } }) => [
    spans.reduce((part, span, axis) => part.slice(axis, span), gradient),
  ],
);

export const concatenate: Rule<{ readonly axis: number }> = rule(
  {},
  ({ gradient, attributes: { axis }, count, shapeOf, needs }) => {
    let start = 0;
    return Array.from({ length: count }, (_, i) => {
      const end = start + shapeOf(i)[axis]!;
      const part = needs(i) ? gradient.slice(axis, { start, end }) : undefined;
      start = end;
      return part;
    });
  },
);

/** Of a conversion between floats; one from or to integers has no derivative, and is not recorded. */
export const cast: Rule = rule({}, ({ gradient, dtypeOf }) => [gradient.cast(dtypeOf(0))]);

export const select: Rule<NumberOperands> = rule({ inputs: [0] }, (context) => {
  const { gradient, attributes, needs } = context;
  const condition = context.input(0);
  const results: (Tensor | undefined)[] = [undefined];
  if (attributes.a === undefined)
    results.push(needs(1) ? sumTo(where(condition, gradient, 0), context.shapeOf(1)) : undefined);
  if (attributes.b === undefined) {
    const i = results.length;
    results.push(needs(i) ? sumTo(where(condition, 0, gradient), context.shapeOf(i)) : undefined);
  }
  return results;
});

// Indices

export const gather: Rule<{ readonly axis: number }> = rule({ inputs: [1] }, (context) => [
  context.gradient.scatterAdd(context.input(1), context.shapeOf(0), context.attributes.axis),
  undefined,
]);

export const scatterAdd: Rule<{ readonly axis: number }> = rule({ inputs: [1] }, (context) => [
  context.gradient.takeAlong(context.input(1), context.attributes.axis),
  undefined,
]);

// Sums and the like

interface Reduced {
  readonly axes?: number | readonly number[] | undefined;
}

/** A result of a reduction with the reduced axes back, as extents of 1. */
function withAxes(result: Tensor, shape: Shape, { axes }: Reduced): Tensor {
  const reduced = axesOf("gradient", axes, shape.length);
  return result.reshape(...shape.map((extent, axis) => (reduced.includes(axis) ? 1 : extent)));
}

export const sum: Rule<Reduced> = rule({}, ({ gradient, attributes, shapeOf }) => {
  const shape = shapeOf(0);
  return [withAxes(gradient, shape, attributes).expand(...shape)];
});

export const mean: Rule<Reduced> = rule({}, ({ gradient, attributes, shapeOf }) => {
  const shape = shapeOf(0);
  const count = axesOf("mean", attributes.axes, shape.length).reduce(
    (product, axis) => product * shape[axis]!,
    1,
  );
  return [withAxes(gradient.div(count), shape, attributes).expand(...shape)];
});

/**
 * The largest or smallest elements get the gradient; equal ones share it. If an element is NaN, so is the result, which equals
 * none of them: then 0 / 0 makes the gradient of all NaN.
 */
export const extreme: Rule<Reduced> = rule({ inputs: [0], output: true }, (context) => {
  const { attributes, gradient } = context;
  const x = context.input(0);
  const isExtreme = x.equal(withAxes(context.output(), x.shape, attributes));
  // In f16, counts above 2048 would be rounded, and those above 65504 infinite.
  const count = isExtreme.cast("f32").sum(attributes.axes, { keepAxes: true });
  const passed = where(isExtreme, withAxes(gradient, x.shape, attributes).cast("f32"), 0);
  return [passed.div(count).cast(x.dtype)];
});

/** f of a tensor with some axes joined to one, along that axis, with these axes back. */
function alongJoined(x: Tensor, axes: readonly number[], f: (x: Tensor, axis: number) => Tensor): Tensor {
  if (axes.length === 1) return f(x, axes[0]!);
  const kept = x.shape.map((_, axis) => axis).filter((axis) => !axes.includes(axis));
  const order = [...kept, ...axes];
  const rows = x.permute(...order);
  const lines = rows.reshape(
    ...kept.map((axis) => x.shape[axis]!),
    axes.reduce((count, axis) => count * x.shape[axis]!, 1),
  );
  const inverse = order.map((_, axis) => order.indexOf(axis));
  return f(lines, -1)
    .reshape(...rows.shape)
    .permute(...inverse);
}

/** The gradient times softmax(x). e^(x - result) is the same, but its error is e to that of the result, which is rounded. */
export const logSumExp: Rule<Reduced> = rule({ inputs: [0] }, ({ attributes, gradient, input }) => {
  const x = input(0);
  const weights = alongJoined(x, axesOf("logSumExp", attributes.axes, x.rank), (lines, axis) =>
    lines.softmax(axis),
  );
  return [weights.mul(withAxes(gradient, x.shape, attributes))];
});

/** The gradient times the product of all others: that of those before, times that of those after. */
export const prod: Rule<Reduced> = rule({ inputs: [0] }, (context) => {
  const x = context.input(0);
  const others = alongJoined(x, axesOf("prod", context.attributes.axes, x.rank), (lines, axis) => {
    const before = lines.scan("prod", axis, { exclusive: true });
    const after = lines.scan("prod", axis, { exclusive: true, reverse: true });
    return before.mul(after);
  });
  return [others.mul(withAxes(context.gradient, x.shape, context.attributes))];
});

/** Each element is part of the sums from its place on: they are summed the other way round. */
export const scanSum: Rule<ScanAttributes> = rule(
  {},
  ({ gradient, attributes: { axis, exclusive, reverse } }) => [
    gradient.cumulativeSum(axis, { exclusive, reverse: !reverse }),
  ],
);
