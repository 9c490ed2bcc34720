// Tags: proof, pure, long
import { describeReference } from "./quarters.js";

describeReference(4);
