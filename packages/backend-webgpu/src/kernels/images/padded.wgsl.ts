/** What kernels share that copy images with their padding, channels first, to images with channels last. */
import { lines, WORKGROUP_SIZE, wgsl } from "../../program/index.js";

/** Pixels, and channels, that a workgroup copies, through the variable `tile`. */
export const PADDED_SIDE = 64;

/** Channels that it reads at a time, a pixel of each for an invocation. */
const READ = WORKGROUP_SIZE / PADDED_SIDE;

/** Declares the tile. */
export const paddedTile: string = wgsl`const SIDE = ${PADDED_SIDE}u;
const PITCH = SIDE + 1u; // spreads the banks
var<workgroup> tile: array<f32, SIDE * PITCH>; // channels x pixels`;

/**
 * Finds the `pixel` of an invocation in the copy, from `first_pixel` on, and the first `channel` that it reads. If the pixel
 * `exists` in the input, `start` is its element in `first_channel`, and the next channel's is a `plane` further on. `width`:
 * the parameter that counts the columns of the copy.
 */
export const pixelOfCopy = (width: string): string => wgsl`    let pixel = first_pixel + lane % SIDE;
    let channel = lane / SIDE;
    // Rows and columns wrap round below zero.
    let y = pixel / parameters.${width} - parameters.top;
    let x = pixel % parameters.${width} - parameters.left;
    let exists = y < parameters.height && x < parameters.width;
    let plane = parameters.height * parameters.width;
    let start = parameters.input_offset + (image * parameters.channels + first_channel) * plane + y * parameters.width + x;`;

/** A line for each channel that an invocation reads; the value of channel + i READ is `value_i`. */
export function perChannel(line: (index: number, channel: string) => string): string {
  return lines(PADDED_SIDE / READ, (i) => line(i, `channel + ${i * READ}u`));
}

/** Writes the values to the tile. */
export const valuesToTile: string = perChannel(
  (i, channel) => `    tile[(${channel}) * PITCH + lane % SIDE] = value_${i};`,
);
