export { gatherFunction, packFunction, packNanoseconds, panelHeight, transpose4 } from "./pack.js";
