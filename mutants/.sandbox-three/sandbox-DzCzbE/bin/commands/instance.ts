/** `espalier instance`: what runs inside a database's pod, beside or before Postgres. */
// @ts-nocheck

import { runInstance } from '../../instance/index.ts'
import type { Command } from '../command.ts'

const command: Command = {
  summary: 'prepare the data directory of a Postgres instance (runs inside its pod)',
  help: 'Usage: espalier instance prepare --data DIR --configuration DIR --tls DIR',
  run: runInstance,
}
export default command
