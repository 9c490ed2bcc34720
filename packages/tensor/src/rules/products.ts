import type { Tensor } from "../tensor.js";
import { type Rule, rule, sumTo } from "./rule.js";

/** Of C = A B: at A it is G B^T, at B it is A^T G, summed over what was repeated. */
export const matmul: Rule = rule({ inputs: [0, 1] }, (context) => {
  const { gradient: g, needs, shapeOf } = context;
  const atA = needs(0) ? sumTo(g.matmul(context.input(1).transpose()), shapeOf(0)) : undefined;
  if (!needs(1)) return [atA, undefined];
  const a = context.input(0);
  if (shapeOf(1).length === 2) return [atA, rowsOf(a).transpose().matmul(rowsOf(g))];
  return [atA, sumTo(a.transpose().matmul(g), shapeOf(1))];
});

/** Of y = x W + b. */
export const linear: Rule = rule({ inputs: [0, 1] }, (context) => {
  const { gradient: g, needs, count } = context;
  const rows = rowsOf(g);
  const atX = needs(0) ? g.matmul(context.input(1).transpose()) : undefined;
  const atW = needs(1) ? rowsOf(context.input(0)).transpose().matmul(rows) : undefined;
  return count === 2 ? [atX, atW] : [atX, atW, needs(2) ? rows.sum(0) : undefined];
});

/** All axes but the last one made one. */
function rowsOf(x: Tensor): Tensor {
  return x.rank === 2 ? x : x.reshape(-1, x.shape.at(-1)!);
}
