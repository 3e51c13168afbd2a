/** `espalier instance`: runs inside a database's pod, beside or before Postgres. */
import { runInstance } from '../../instance/index.ts'
import type { Command } from '../command.ts'

const command: Command = {
  // `runInstance` prints the complete help.
  help: 'Usage: espalier instance prepare|verify|import|agent [options]',
  run: runInstance,
}
export default command
