import { describeDevices } from "./support/devices.js";

describeDevices("a page");
