import type { DeviceFeatures } from "../../device/index.js";
import type { Program } from "../../program/index.js";
import { isObserved } from "../variant.js";
import type { ResultForm } from "./results.wgsl.js";
import { type GemmChoice, selectGemm } from "./select.js";
import type { AlignedShape } from "./shape.js";

/**
 * What follows from a shape on a device. It is kept, because programs multiply matrices of few shapes again and again, and to
 * work it out took a tenth of a small call.
 */
export interface KeptChoice {
  readonly shape: AlignedShape;
  readonly forced: string | undefined;
  readonly choice: GemmChoice;
  /** The program that was asked for last, and for what results. */
  latest: { readonly form: ResultForm; readonly program: Program } | undefined;
}

/** A power of two. Shapes that share a slot drive each other out. */
const SLOTS = 256;

const keptOn = new WeakMap<DeviceFeatures, (KeptChoice | undefined)[]>();

/** The choice for a shape; as `selectGemm`. */
export function choiceFor(shape: AlignedShape, features: DeviceFeatures, forced?: string): KeptChoice {
  // What was tuned may be tuned again, and observers hear of every choice.
  if (features.tuned !== undefined || isObserved(features)) return choose(shape, features, forced);
  let slots = keptOn.get(features);
  if (slots === undefined) {
    slots = new Array<KeptChoice | undefined>(SLOTS).fill(undefined);
    keptOn.set(features, slots);
  }
  const slot = slotOf(shape);
  const kept = slots[slot];
  if (kept !== undefined && kept.forced === forced && isSame(kept.shape, shape)) return kept;
  const made = choose(shape, features, forced);
  slots[slot] = made;
  return made;
}

function choose(shape: AlignedShape, features: DeviceFeatures, forced: string | undefined): KeptChoice {
  return { shape, forced, choice: selectGemm(shape, features, forced), latest: undefined };
}

/** From the highest bits of products with odd numbers, which depend on all bits. */
function slotOf({ m, n, k }: AlignedShape): number {
  const mixed = Math.imul(m, 0x9e3779b1) ^ Math.imul(n, 0x85ebca6b) ^ Math.imul(k, 0xc2b2ae35);
  return mixed >>> (32 - Math.log2(SLOTS));
}

function isSame(a: AlignedShape, b: AlignedShape): boolean {
  return (
    a.m === b.m &&
    a.n === b.n &&
    a.k === b.k &&
    a.batch === b.batch &&
    a.dtype === b.dtype &&
    a.transA === b.transA &&
    a.transB === b.transB &&
    a.vectorA === b.vectorA &&
    a.vectorB === b.vectorB &&
    a.vectorC === b.vectorC &&
    a.eightsA === b.eightsA &&
    a.eightsB === b.eightsB &&
    a.wholeEights === b.wholeEights
  );
}

/** The program for results of this form; `make` makes it from shape, choice and form alone. */
export function programFor(kept: KeptChoice, form: ResultForm, make: () => Program): Program {
  const { latest } = kept;
  if (latest !== undefined && isSameForm(latest.form, form)) return latest.program;
  const program = make();
  kept.latest = { form, program };
  return program;
}

/** Of forms of whole results: nothing else differs between them. */
function isSameForm(a: ResultForm, b: ResultForm): boolean {
  return (
    a.dtype === b.dtype &&
    a.target === b.target &&
    a.readsC === b.readsC &&
    a.bias === b.bias &&
    a.activation === b.activation
  );
}
