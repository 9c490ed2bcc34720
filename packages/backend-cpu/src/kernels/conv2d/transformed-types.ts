import type { ConvolutionTile } from "@backplane/core";
import type { Local } from "../../wasm/index.js";
import { readSlackBytes } from "../kernel.js";
import { wholeLines } from "../vector/index.js";
import { transforms } from "./transforms.js";

const types = {
  input: "i32",
  /** As it is, or transformed by `transformFilterKernel`. */
  filter: "i32",
  /** 1: chunks transform filters themselves, those of `filterBlock` output channels at a time, into their rooms. */
  ownFilters: "i32",
  filterBlock: "i32",
  /** Of transformed filters: bytes from panel to panel unless chunks transform them, and from point to point. */
  panelBytes: "i32",
  pointBytes: "i32",
  /** 0: none. */
  bias: "i32",
  /** A value of `activationCode`. */
  activation: "i32",
  output: "i32",
  inChannels: "i32",
  outChannels: "i32",
  height: "i32",
  width: "i32",
  outHeight: "i32",
  outWidth: "i32",
  top: "i32",
  left: "i32",
  /** Tiles of an image, and of all images, row by row. */
  tilesY: "i32",
  tilesX: "i32",
  tiles: "i32",
  /** A chunk's share: tiles, and output channels. `tileChunks` is how many parts the tiles have. */
  tilesPerChunk: "i32",
  channelBlock: "i32",
  tileChunks: "i32",
  /** Input channels whose products are summed before they are added to others. */
  depthChannels: "i32",
  /** The room of worker 0 (see `transformedRoom`), bytes from worker to worker, and places in it. */
  rooms: "i32",
  roomBytes: "i32",
  lineBytes: "i32",
  inputs: "i32",
  inputPointBytes: "i32",
  sums: "i32",
  sumsPointBytes: "i32",
  filters: "i32",
} as const;

export type TransformedTypes = typeof types;

export const transformedTypes: TransformedTypes = types;

export type TransformedParameters = { readonly [Name in keyof TransformedTypes]: Local<"i32"> };

/** Most tiles of a chunk; a multiple of `tileColumns`. */
const mostTiles = 64;
/** Bytes of one place of half transformed inputs. */
export const placeBytes: number = 4 * (mostTiles + 4);

/** Vectors of a row that are copied together; they may be read from beyond an operand's end. */
export const copiedVectors: number = readSlackBytes / 16;

/** Places in the room of a worker, in bytes. */
export interface TransformedRoom {
  /** One row of inputs with its padding; another one of zeros follows. */
  readonly lineBytes: number;
  /** Transformed inputs, [point][8 tiles][input channel][tile], and their sums of products, [point][output channel][tile]. */
  readonly inputs: number;
  readonly inputPointBytes: number;
  readonly sums: number;
  readonly sumsPointBytes: number;
  /** Transformed filters, if chunks transform them. */
  readonly filters: number;
  readonly roomBytes: number;
}

/** Whole lines, an odd number of them: places so far apart do not share a set of a cache. */
export function oddLines(bytes: number): number {
  return wholeLines(bytes) + (wholeLines(bytes) % 128 === 0 ? 64 : 0);
}

export function transformedRoom(
  tile: ConvolutionTile,
  of: {
    readonly tiles: number;
    readonly inChannels: number;
    readonly outChannels: number;
    /** Bytes of transformed filters from point to point; 0: none are in the room. */
    readonly filterPointBytes: number;
  },
): TransformedRoom {
  const { outputs, points: along } = transforms[tile];
  const points = along ** 2;
  // Tiles are read four at a time, and some vectors are copied at a time.
  const lineBytes = wholeLines(4 * (outputs * (of.tiles + 3) + 8) + 16 * copiedVectors);
  const inputPointBytes = oddLines(4 * of.tiles * of.inChannels);
  const sumsPointBytes = oddLines(4 * of.tiles * of.outChannels);
  const inputs = 2 * lineBytes + wholeLines(points * placeBytes);
  const sums = inputs + points * inputPointBytes;
  // Tiles are read four at a time here, too.
  const filters = sums + points * sumsPointBytes + 64;
  const roomBytes = filters + points * of.filterPointBytes;
  return { lineBytes, inputs, inputPointBytes, sums, sumsPointBytes, filters, roomBytes };
}
