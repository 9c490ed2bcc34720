import { argReduce } from "./arg-reduce/index.js";
import { attention } from "./attention/index.js";
import { binary } from "./binary/index.js";
import { conv2d } from "./conv2d/index.js";
import { copy } from "./copy/index.js";
import { gather } from "./gather/index.js";
import { gemm } from "./gemm/index.js";
import { normalize } from "./normalize/index.js";
import type { OperationEntry } from "./operation.js";
import { random } from "./random/index.js";
import { reduce } from "./reduce/index.js";
import { softmax } from "./softmax/index.js";
import { unary } from "./unary/index.js";

/** Every operation of this package. A new one is a folder and a line here. */
export const operationEntries: readonly OperationEntry[] = [
  ...[gemm, conv2d, attention, reduce, unary, binary],
  ...[softmax, random, normalize, copy, gather, argReduce],
];
