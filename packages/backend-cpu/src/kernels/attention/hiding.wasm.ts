import { type FunctionBuilder, f32x4, i32, i32x4, type Local, type Value, v128 } from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import type { ParameterLocals } from "../kernel.js";
import { mapVectors } from "../vector/index.js";

/** What kernels for masks and windows have beside the parameters of others. */
export const hidingTypes = {
  /** The first key of query i is i + oldest, or 0; signed. */
  oldest: "i32",
  /** A number of `maskKinds`; 0 if there is no mask. */
  maskKind: "i32",
  /** Address, and bytes per step along each axis. */
  mask: "i32",
  maskBatch: "i32",
  maskHead: "i32",
  maskQuery: "i32",
  maskKey: "i32",
} as const;

export type HidingTypes = typeof hidingTypes;

export type Hiding = ParameterLocals<HidingTypes>;

export const maskKinds = { f32: 1, f16: 2, u8: 3 } as const;

/** The address of a mask's element for the first key of a head (counted over batches), query 0. */
export function maskOfHead(
  hiding: Pick<Hiding, "mask" | "maskBatch" | "maskHead">,
  heads: Value<"i32">,
  head: Value<"i32">,
): Value<"i32"> {
  const batch = i32.mul(i32.divU(head, heads), hiding.maskBatch);
  return i32.add(hiding.mask, i32.add(batch, i32.mul(i32.remU(head, heads), hiding.maskHead)));
}

/** Adds the mask of neighbouring scores to them, those of one query or of one key, or makes hidden ones -Infinity. */
export function emitMasked(
  f: FunctionBuilder,
  hiding: Pick<Hiding, "maskKind">,
  keys: {
    /** Address of the first score, and bytes to the next. */
    readonly scores: Value<"i32">;
    readonly scoreBytes: number;
    readonly count: Value<"i32">;
    /** Address of the mask's element for the first of them, and bytes to the next. */
    readonly mask: Value<"i32">;
    readonly maskStep: Local<"i32">;
  },
): void {
  const minusInfinity = f.let(f32x4.const(Number.NEGATIVE_INFINITY));
  const end = f.let(i32.add(keys.scores, i32.mul(keys.count, keys.scoreBytes)));
  for (const [dtype, kind] of Object.entries(maskKinds) as [keyof typeof maskKinds, number][])
    f.if(i32.eq(hiding.maskKind, kind), () => {
      const elements = elementsOf(f, dtype);
      const zero = f.let(i32x4.const(0));
      const from = f.let(keys.mask);
      const masked = (score: Value<"v128">, value: Value<"v128">) =>
        dtype === "u8"
          ? v128.bitselect(minusInfinity, score, i32x4.eq(value, zero))
          : f32x4.add(score, value);
      const oneByOne = (): void =>
        f.forRange(
          keys.scores,
          end,
          (at) => {
            const score = f.let(v128.load32Splat(at));
            const value = f.let(elements.loadSplat(from));
            f.storeLane(32, 0, at, f.let(masked(score, value)));
            f.add(from, keys.maskStep);
          },
          { step: keys.scoreBytes },
        );
      if (keys.scoreBytes !== 4) {
        oneByOne();
        return;
      }
      // One query of many keys takes 1.2 to 1.4 times as long with a mask that is read one by one.
      const fourByFour = (): void => {
        const scores = { at: f.let(keys.scores), elements: elementsOf(f, "f32") };
        mapVectors(f, {
          count: f.let(keys.count),
          inputs: [scores, { at: from, elements }],
          output: scores,
          compute: (score, value) => masked(score!, value!),
          unroll: 1,
        });
      };
      f.if(i32.eq(keys.maskStep, elements.bytes), fourByFour, oneByOne);
    });
}

/** Makes the scores of the first `count` keys -Infinity, for one query. */
export function emitForgotten(
  f: FunctionBuilder,
  keys: { readonly scores: Value<"i32">; readonly scoreBytes: number; readonly count: Local<"i32"> },
): void {
  const minusInfinity = f.let(f32x4.const(Number.NEGATIVE_INFINITY));
  const end = f.let(i32.add(keys.scores, i32.mul(keys.count, keys.scoreBytes)));
  f.forRange(keys.scores, end, (at) => f.storeLane(32, 0, at, minusInfinity), { step: keys.scoreBytes });
}

/** 1 in place of a total of 0, which is that of a query that sees no key: its sums are 0. */
export function totalOrOne(f: FunctionBuilder, total: Local<"v128">): void {
  const isNothing = f32x4.eq(total, f32x4.const(0));
  f.set(total, v128.bitselect(f32x4.const(1), total, isNothing));
}
