#!/usr/bin/env node
/**
 * Entry point: `node instance/main.ts [instance] prepare ...`. Images use the word `instance` as part of the command.
 */
import { runInstance } from './index.ts'

const [first, ...rest] = process.argv.slice(2)
process.exitCode = await runInstance(first === 'instance' ? rest : process.argv.slice(2))
