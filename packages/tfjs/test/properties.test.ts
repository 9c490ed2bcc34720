// Tags: kernels
import { cpu } from "@backplane/backend-cpu";
import { describeProperties } from "./properties.js";

describeProperties(cpu);
describeProperties(cpu, 1000);
