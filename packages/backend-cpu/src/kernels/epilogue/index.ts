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
