/** How the planes of images are shared out. */
export { type Blocks, blocksFor, spotFunction } from "./blocks.wgsl.js";
