import { cpu } from "@backplane/backend-cpu";
import { describeIntegers } from "./integers.js";

describeIntegers(cpu);
