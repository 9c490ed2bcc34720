import { cpu } from "@backplane/backend-cpu";
import { describeProperties } from "./properties.js";

describeProperties(cpu);
