export { bundleFiles, type PageFiles, type PageSources } from "./bundle.js";
export { type PageProgram, runPageProgram } from "./program.js";
export { type Content, type PageServer, startServer } from "./server.js";
