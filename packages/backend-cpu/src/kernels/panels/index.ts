export { gatherFunction, packFunction, packNanoseconds, panelHeight } from "./pack.js";
