// Tags: kernels, pure, long
import { describeCases } from "./halves.js";

describeCases(1);
