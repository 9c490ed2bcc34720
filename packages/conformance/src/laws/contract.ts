import type { Law } from "../law.js";
import { errorLaws } from "./errors.js";
import { inPlaceLaws } from "./in-place.js";
import { lifecycleLaws } from "./lifecycle.js";
import { lossLaws } from "./loss.js";
import { memoryLaws } from "./memory.js";
import { poolLaws } from "./pool.js";
import { reachLaws } from "./reach.js";
import { recordingLaws } from "./recordings.js";
import { statefulRecordingLaws } from "./recordings-stateful.js";
import { sequenceLaws } from "./sequences.js";
import { sliceLaws } from "./slices.js";
import { statefulLaws } from "./stateful.js";
import { swappingLaws } from "./swapping.js";
import { synchronousReadLaws } from "./synchronous-reads.js";
import { transferLaws } from "./transfers.js";

/** Laws of the contract around the operations: lifecycle, memory, errors and so on. */
export const contractLaws: readonly Law[] = [
  ...lifecycleLaws,
  ...memoryLaws,
  ...poolLaws,
  ...transferLaws,
  ...synchronousReadLaws,
  ...errorLaws,
  ...sliceLaws,
  ...inPlaceLaws,
  ...sequenceLaws,
  ...reachLaws,
  ...statefulLaws,
  ...recordingLaws,
  ...statefulRecordingLaws,
  ...swappingLaws,
  ...lossLaws,
];
