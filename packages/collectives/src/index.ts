export { type BucketOptions, BucketReduction } from "./buckets.js";
export {
  type AllGatherArguments,
  type AllReduceArguments,
  type AllReduceKind,
  type BroadcastArguments,
  Communicator,
  type Elements,
  type ReceiveArguments,
  type ReduceScatterArguments,
  type SendArguments,
  type SplitArguments,
} from "./communicator.js";
export type { ReducedType } from "./elements.js";
export { CommunicationError, type CommunicationErrorCode } from "./errors.js";
export { type CommunicatorOptions, openCommunicator } from "./open.js";
