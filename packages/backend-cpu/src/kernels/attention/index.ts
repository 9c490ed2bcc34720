export { attention } from "./attention.js";
