export { binary } from "./binary.js";
