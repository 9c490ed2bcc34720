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

/** By the slot of the shape: those that share one drive each other out. */
const keptOn = new WeakMap<DeviceFeatures, KeptChoice[]>();

/** The choice for a shape; as `selectGemm`. */
export function choiceFor(shape: AlignedShape, features: DeviceFeatures, forced?: string): KeptChoice {
  // What was tuned may be tuned again, and observers hear of every choice.
  if (features.tuned !== undefined || isObserved(features)) return choose(shape, features, forced);
  const slots = keptOn.get(features) ?? new Array<KeptChoice>(256);
  keptOn.set(features, slots);
  const slot = slotOf(shape);
  const kept = slots[slot];
  if (kept !== undefined && kept.forced === forced && holds(kept.shape, shape)) return kept;
  const made = choose(shape, features, forced);
  slots[slot] = made;
  return made;
}

function choose(shape: AlignedShape, features: DeviceFeatures, forced: string | undefined): KeptChoice {
  return { shape, forced, choice: selectGemm(shape, features, forced), latest: undefined };
}

/** The eight highest bits of products with odd numbers, which depend on all bits. */
function slotOf({ m, n, k }: AlignedShape): number {
  return (Math.imul(m, 0x9e3779b1) ^ Math.imul(n, 0x85ebca6b) ^ Math.imul(k, 0xc2b2ae35)) >>> 24;
}

/** Whether `b` has all that `a` has. */
function holds<Facts extends object>(b: Facts, a: Facts): boolean {
  for (const name in a) if (a[name] !== b[name]) return false;
  return true;
}

/** The program for results of this form; `make` makes it from shape, choice and form alone. */
export function programFor(kept: KeptChoice, form: ResultForm, make: () => Program): Program {
  const { latest } = kept;
  // What a form lacks is undefined in the other.
  if (latest !== undefined && holds(form, latest.form) && holds(latest.form, form)) return latest.program;
  const program = make();
  kept.latest = { form, program };
  return program;
}
