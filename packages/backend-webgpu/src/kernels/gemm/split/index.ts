/** For convolutions, which split their operands, too. Loaded with the kernels for matrix units. */
export {
  exponentFunction,
  extremesText,
  splitAlongProgram,
  splitFunctions,
  UNROLL,
  WIDE,
  wideBlocksProgram,
} from "./pass.wgsl.js";
export { type LinePlaces, rowsOf, splitDirectives, splitSource } from "./product.wgsl.js";
export { octavesFor, words } from "./split.js";
export { RUN, UNIT } from "./split-tile.js";
