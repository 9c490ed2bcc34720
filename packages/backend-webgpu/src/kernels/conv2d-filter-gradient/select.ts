import type { Conv2dFilterGradientProblem } from "@backplane/core";
import type { DeviceFeatures } from "../../device/index.js";
import type { DeviceMemory } from "../../runtime/index.js";
import { windowExtents } from "../images/index.js";
import { isNarrow, MULTIPROCESSORS } from "../machine.js";
import { PARTIAL_SUM_BYTES } from "../segments/index.js";
import { selectVariant } from "../variant.js";
import { type FilterGradientShape, type FilterGradientVariant, filterGradientVariants } from "./variants.js";

type Problem = Conv2dFilterGradientProblem<DeviceMemory>;

/** Invocations of tiles that run at the same time on a large GPU. */
const RUNNING_INVOCATIONS = 256 * MULTIPROCESSORS;

/** Pixels of the shortest part that is worth workgroups of its own. */
const SHORTEST_PART = 256;

/** Steps of every tile, and runs of four, are whole in parts of this many pixels. */
const GRAIN = 32;

/** Workgroups of 64 that keep a large GPU busy with reading. */
const READING_WORKGROUPS = 16 * MULTIPROCESSORS;

/** Chooses a kernel; `forced` names a variant that is taken wherever it fits. */
export function selectFilterGradient(
  shape: FilterGradientShape,
  features: DeviceFeatures,
  forced?: string,
): FilterGradientVariant {
  return selectVariant("conv2dFilterGradient", filterGradientVariants, shape, features, forced);
}

/**
 * Returns the pixels of each part of the sums: as many parts as leave the least of a large GPU idle, and the fewest of
 * those. Few results with long sums are the rule.
 *
 * @param invocations of all results, if the sums are not divided
 */
export function pixelsOfPart(
  shape: FilterGradientShape,
  invocations: number,
  features: DeviceFeatures,
): number {
  const { pixels } = shape;
  const alone = invocations / RUNNING_INVOCATIONS;
  const most = isNarrow(features)
    ? Math.min(2, Math.floor(pixels / 1024))
    : Math.min(Math.ceil(3 / alone), Math.floor(pixels / SHORTEST_PART), mostParts(shape));
  let [parts, best] = [1, 0];
  for (let candidate = 1; candidate <= most; candidate++) {
    const rounds = candidate * alone;
    const busy = rounds / Math.ceil(rounds);
    // More parts take longer to add up: a third round has to gain more.
    if (busy > (rounds > 2 ? 1.04 : 1.01) * best) [parts, best] = [candidate, busy];
  }
  return Math.ceil(pixels / parts / GRAIN) * GRAIN;
}

/** Multiply-adds for each element of a copy of the input from which making it is worth its while. */
const WORTH_COPYING = 512;

/** Whether windows are read from a copy of the input with its padding, whose channels are last. */
export function isWorthCopying(
  { groupOutputs, taps, pixels }: FilterGradientShape,
  problem: Problem,
  features: DeviceFeatures,
): boolean {
  const { batch, groups, inChannels, top, left } = problem;
  if (isNarrow(features) || groups > 1 || inChannels % 4 !== 0) return false;
  const { height, width } = windowExtents(problem);
  return (
    // Otherwise windows meet nothing but padding, and nothing is to be copied.
    top < height &&
    left < width &&
    // As much as the division into segments reckons with, and less.
    height * width <= 2 * problem.height * problem.width &&
    groupOutputs * taps * pixels >= WORTH_COPYING * batch * inChannels * height * width
  );
}

/** Returns the strips of each workgroup, for as many of them as keep a large GPU busy. */
export function stripsOfPart(
  shape: FilterGradientShape,
  strips: number,
  lanes: number,
  features: DeviceFeatures,
): number {
  const channels = shape.groups * shape.groupOutputs;
  const wanted = isNarrow(features) ? 2 : Math.ceil(READING_WORKGROUPS / (channels * Math.sqrt(shape.taps)));
  const parts = Math.max(
    1,
    Math.min(wanted, Math.floor(strips / (2 * lanes)), Math.floor(mostParts(shape) / lanes)),
  );
  return Math.ceil(strips / parts / lanes) * lanes;
}

function mostParts({ groups, groupOutputs, taps }: FilterGradientShape): number {
  return Math.max(1, Math.floor(PARTIAL_SUM_BYTES / (4 * groups * groupOutputs * taps)));
}
