// Tags: kernels, pure
import { webgpu } from "@backplane/backend-webgpu";
import { describeIntegers } from "./integers.js";

describeIntegers(webgpu);
