/** Channels that a step of the product takes: those of a copy are padded with zeros to a multiple of this. */
const STEP_CHANNELS = 32;

/** Elements of an image that a workgroup looks at to find the extremes. */
export const CHUNK = 8192;

export function paddedChannels(channels: number): number {
  return STEP_CHANNELS * Math.ceil(channels / STEP_CHANNELS);
}
