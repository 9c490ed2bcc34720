export type {
  AllGatherArguments,
  AllReduceArguments,
  AllReduceKind,
  BroadcastArguments,
  Elements,
  ReceiveArguments,
  ReduceScatterArguments,
  SendArguments,
  SplitArguments,
} from "./arguments.js";
export { type BucketOptions, BucketReduction } from "./buckets.js";
export { Communicator } from "./communicator.js";
export type { ReducedType } from "./elements.js";
export { CommunicationError, type CommunicationErrorCode } from "./errors.js";
export { type CommunicatorOptions, openCommunicator } from "./open.js";
