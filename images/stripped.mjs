/**
 * Beside `bin/espalier.mjs` in an image, where types have been taken out of the files already (images/context.ts): they are run as they
 * are, and what takes types out, some 25 MiB of a process, is not loaded.
 */
import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'

const root = new URL('../', import.meta.url).href

registerHooks({
  load: (url, context, next) =>
    url.startsWith(root) && url.endsWith('.ts') && !url.includes('/node_modules/')
      ? { format: 'module', source: readFileSync(new URL(url)), shortCircuit: true }
      : next(url, context),
})
