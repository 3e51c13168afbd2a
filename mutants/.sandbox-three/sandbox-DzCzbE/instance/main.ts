#!/usr/bin/env node
// @ts-nocheck
/** Entry: `node instance/main.ts [instance] prepare ...`; the leading word is how images name the command. */
import { runInstance } from './index.ts'

const [first, ...rest] = process.argv.slice(2)
process.exitCode = await runInstance(first === 'instance' ? rest : process.argv.slice(2))
