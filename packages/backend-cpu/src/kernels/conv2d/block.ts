import type { Local } from "../../wasm/index.js";
import { type WindowPlaces, windowPlaces } from "../images/index.js";

const ownTypes = {
  input: "i32",
  /** f32, in panels: [group][panel][depth][channels of the tile]. */
  filter: "i32",
  /** 0: none. */
  bias: "i32",
  /** A value of `activationCode`. */
  activation: "i32",
  output: "i32",
  inChannels: "i32",
  outChannels: "i32",
  groups: "i32",
  groupInChannels: "i32",
  groupOutChannels: "i32",
  /** Bytes of the filter panels of one group. */
  groupFilterBytes: "i32",
  /** Input channels whose planes exist at a time. */
  depthChannels: "i32",
  /** A chunk's share of one group and one image: output channels, rows and columns. */
  channelBlock: "i32",
  rowBlock: "i32",
  columnBlock: "i32",
  channelBlocks: "i32",
  rowBlocks: "i32",
  columnBlocks: "i32",
  /** Pairs of an image and a group; and of how many of them a chunk does its share. */
  images: "i32",
  imagesPerChunk: "i32",
  /**
   * Elements from row to row, including padding that a row shares with the next one, and bytes from phase to phase.
   */
  pitch: "i32",
  sharedPadding: "i32",
  phaseBytes: "i32",
  /** Only for types that are not converted. 1: the input is read in place, as one plane; `phaseBytes` is then from channel to channel. */
  inPlace: "i32",
  /** The same, as in the table below: whether sums go to the output. */
  direct: "i32",
  /** Bytes of sums from channel to channel. */
  sumsBytes: "i32",
  /** Address of the first worker's workspace, bytes to the next one's, offsets within it. */
  workspace: "i32",
  workspaceBytes: "i32",
  planes: "i32",
  sums: "i32",
} as const;

/** If the places of a chunk are consecutive in the output, the sums are stored there. */
export const direct = {
  no: 0,
  /** All places do. */
  places: 1,
  /** The places of a row are consecutive and make tiles; places between rows are not computed. */
  rows: 2,
} as const;

export type PlanesTypes = WindowPlaces & typeof ownTypes;

export const planesTypes: PlanesTypes = { ...windowPlaces, ...ownTypes };

type Parameters = { readonly [Name in keyof PlanesTypes]: Local<"i32"> };

/** The work of one chunk. */
export interface Block {
  readonly parameters: Parameters;
  /** The first output row and column, and how many. */
  readonly y: Local<"i32">;
  readonly x: Local<"i32">;
  readonly rows: Local<"i32">;
  readonly columns: Local<"i32">;
  /** Phases that the kernel reaches: all, or fewer if steps are longer than the kernel. */
  readonly phasesY: Local<"i32">;
  readonly phasesX: Local<"i32">;
  /** Bytes of one row, of one input channel. */
  readonly rowBytes: Local<"i32">;
  readonly planeBytes: Local<"i32">;
}
