export {
  activationCode,
  boundedEpilogue,
  type EpilogueLocals,
  type EpilogueParameters,
  epilogueFunction,
  epilogueTypes,
  hasEpilogue,
  noEpilogue,
} from "./epilogue.js";
export { storeFinished, type TileResults } from "./tile.js";
