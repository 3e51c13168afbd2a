#!/usr/bin/env node
/** Entry point: `node instance/main.ts [instance] prepare ...`; images use the leading word as the command. */
import { runInstance } from './index.ts'

const [first, ...rest] = process.argv.slice(2)
process.exitCode = await runInstance(first === 'instance' ? rest : process.argv.slice(2))
