import type { Law } from "../law.js";
import { everyOperation } from "../ops/index.js";
import { accuracyLaws } from "./accuracy.js";
import { numericsLaws } from "./numerics.js";
import { supportsLaws } from "./supports.js";

/** Laws of the operations, of the declared accuracy and numerics, and of `supports()`. */
export const operationLaws: readonly Law[] = [
  ...everyOperation.flatMap(({ laws }) => laws),
  ...accuracyLaws,
  ...numericsLaws,
  ...supportsLaws,
];
