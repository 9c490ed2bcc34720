import { type FloatType, type InexactUnaryKind, inexactUnaryKinds } from "@backplane/core";
import { declaredRanges, declaredUnits } from "../accuracy.js";
import { floatFormats } from "../elements.js";
import { unaryEntries } from "../kinds/unary.js";
import { binaryCall, compute, unaryCall } from "../kit/values.js";
import type { Law, LawContext } from "../law.js";
import { unaryTolerance } from "../ops/unary/index.js";
import { ulp } from "../tolerance.js";
import { stratified } from "./accuracy-arguments.js";
import { type Sweep, sweepUnary } from "./accuracy-case.js";

/*
 * Callers rely on the nature of functions: a sigmoid is a probability, a sine lies between -1 and 1, e^0 is
 * 1. Error bounds do not ensure that, so declaring a function promises it too. If none is declared, results
 * still stay in their range, except those of sin and cos, and points hold to within the least bounds.
 */

/** Laws on the shape of the functions that are declared. */
export function shapeLaws(dtype: FloatType): readonly Law[] {
  const ofUnary = (
    name: string,
    kinds: readonly InexactUnaryKind[],
    check: (context: LawContext, kind: InexactUnaryKind) => Promise<void>,
    /** Functions for which a backend must keep the law even if it does not declare their units. */
    always: readonly InexactUnaryKind[] = [],
  ): Law => ({
    ...{ topic: "accuracy", name, operation: "unary", dtype },
    exempt: ({ accuracy }) =>
      always.length > 0 || kinds.some((kind) => declaredRanges(accuracy, kind) !== undefined)
        ? undefined
        : "the accuracy of these functions is not declared",
    run: (context) => {
      const { backend } = context;
      const isBound = (kind: InexactUnaryKind) =>
        backend.supports("unary", { dtype, kind }) &&
        (always.includes(kind) || declaredRanges(backend.capabilities.accuracy, kind) !== undefined);
      return context.forEach(kinds, async (kind) => {
        if (isBound(kind)) await check(context, kind);
      });
    },
  });
  const ranged = inexactUnaryKinds.filter((kind) => unaryEntries[kind].outermost !== undefined);
  const pointed = inexactUnaryKinds.filter((kind) => unaryEntries[kind].points !== undefined);
  const sweep = (context: LawContext, kind: InexactUnaryKind) => sweepUnary(context, dtype, kind, 1);
  const rising = ofUnary(
    "functions rise and fall to within their units",
    inexactUnaryKinds.filter((kind) => unaryEntries[kind].course !== undefined),
    async (context, kind) => checkCourse(context, kind, await sweep(context, kind)),
  );
  return [
    // Results computed in f32 and rounded once rise and fall as those in f32 do.
    ...(floatFormats[dtype].bitsLost === 0 ? [rising] : []),
    ofUnary(
      "odd and even functions are so bit for bit",
      inexactUnaryKinds.filter((kind) => unaryEntries[kind].mirror !== undefined),
      async (context, kind) => checkMirror(kind, await sweep(context, kind)),
    ),
    ofUnary(
      "functions stay inside of their range",
      ranged,
      async (context, kind) => checkOutermost(kind, await sweep(context, kind)),
      ranged.filter((kind) => unaryEntries[kind].mayPassOutermost === undefined),
    ),
    ofUnary(
      "functions are exact at points such as exp(0) = 1",
      pointed,
      (context, kind) => checkPoints(context, dtype, kind),
      pointed,
    ),
    {
      ...{
        topic: "accuracy",
        name: "powers are exact where x^1 = x, x^0 = 1, 1^y = 1",
        operation: "binary",
        dtype,
      },
      exempt: ({ accuracy }, backend) => {
        if (!backend.supports("binary", { dtype, kind: "pow" })) return `pow in ${dtype} is not supported`;
        return declaredUnits(accuracy, "pow") === undefined
          ? "the accuracy of pow is not declared"
          : undefined;
      },
      run: (context) => checkPowers(context, dtype),
    },
  ];
}

type Swept = Sweep & { readonly x: Float64Array };

/**
 * Checks that x1 < x2 leads to f(x1) <= f(x2) + units for all pairs of arguments; the reverse for falling functions.
 */
function checkCourse(
  { numerics }: LawContext,
  kind: InexactUnaryKind,
  { x, got, exact, units }: Swept,
): void {
  const { from, to, direction } = unaryEntries[kind].course!;
  const smallest = numerics.subnormals === "kept" ? 0 : 2 ** -126;
  /** The place of the largest result so far. */
  let top: number | undefined;
  for (const [i, y] of exact.entries()) {
    // A result out of range may be anything, and one that is nearly 0 may be 0.
    if (!(x[i]! >= from && x[i]! <= to && Math.abs(y) >= smallest && Math.abs(y) < 2 ** 128 * (1 - 2 ** -20)))
      continue;
    const fall = top === undefined ? 0 : direction * (got[top]! - got[i]!);
    if (fall <= 0) {
      top = i;
      continue;
    }
    const allowed = Math.max(units(top!)!, units(i)!) * Math.max(ulp(exact[top!]!), ulp(y));
    if (!(fall <= allowed))
      throw new Error(
        `${kind} ${direction > 0 ? "falls" : "rises"} from ${got[top!]} at ${x[top!]} to ${got[i]} at ${x[i]}, ` +
          `by ${fall / ulp(y)} units in the last place`,
      );
  }
}

function checkMirror(kind: InexactUnaryKind, { x, got }: Swept): void {
  const mirror = unaryEntries[kind].mirror!;
  for (let i = 0, j = x.length - 1; i < j; i++, j--)
    if (got[j] !== mirror * got[i]! && !(Number.isNaN(got[i]) && Number.isNaN(got[j])))
      throw new Error(
        `${kind} is not ${mirror < 0 ? "odd" : "even"}: ` + `${got[i]} at ${x[i]}, but ${got[j]} at ${x[j]}`,
      );
}

function checkOutermost(kind: InexactUnaryKind, { x, got, exact, units, least: bound }: Swept): void {
  const [least, largest] = unaryEntries[kind].outermost!;
  // If no units are declared and WGSL grants nothing, results may be anything.
  for (const [i, y] of got.entries())
    if (
      !(y >= least && y <= largest) &&
      !Number.isNaN(exact[i]) &&
      (units(i) !== undefined || bound(i) !== Number.POSITIVE_INFINITY)
    )
      throw new Error(`${kind}(${x[i]}) is ${y}; the range of ${kind} is from ${least} to ${largest}`);
}

async function checkPoints(
  { backend, numerics }: LawContext,
  dtype: FloatType,
  kind: InexactUnaryKind,
): Promise<void> {
  const isDeclared = declaredRanges(backend.capabilities.accuracy, kind) !== undefined;
  const pairs = unaryEntries[kind].points!;
  const input = pairs.map(([x]) => x);
  const got = await compute(
    backend,
    dtype,
    [input],
    input.length,
    unaryCall(backend, dtype, kind, input.length),
  );
  for (const [i, [x, y]] of pairs.entries()) {
    const allowed = isDeclared ? 0 : unaryTolerance(kind, x, y, dtype, numerics);
    if (!(Math.abs(got[i]! - y) <= allowed)) throw new Error(`${kind}(${x}) is ${got[i]}, not ${y}`);
  }
}

async function checkPowers({ backend }: LawContext, dtype: FloatType): Promise<void> {
  const some = Array.from(stratified(dtype, [], false, 1)).filter((x) => x !== 0);
  const triples = [
    ...some.map((x) => [x, 1, x]),
    ...some.map((x) => [x, 0, 1]),
    ...some.map((y) => [1, y, 1]),
  ] as const;
  const [a, b] = [triples.map(([x]) => x!), triples.map(([, y]) => y!)];
  const got = await compute(backend, dtype, [a, b], a.length, binaryCall(backend, dtype, "pow", a.length));
  for (const [i, [x, y, z]] of triples.entries())
    if (got[i] !== z) throw new Error(`pow(${x}, ${y}) is ${got[i]}, not ${z}`);
}
