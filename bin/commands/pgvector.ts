/** `espalier pgvector`: adds pgvector to the Postgres of an embedded installation. */
import { mkdir } from 'node:fs/promises'
import { fetchPgvector, pgvectorMajors } from '../../embedded/extensions/pgvector.ts'
import { createInstaller } from '../../embedded/runtime/images/install.ts'
import { readSettings } from '../../embedded/settings.ts'
import { type Command, parseFlags } from '../command.ts'

const help = `Adds pgvector to Postgres ${pgvectorMajors.join(' and ')} of the embedded installation on this machine. CREATE EXTENSION vector then works in every
database, including existing ones, without a restart.

Usage: espalier pgvector

Downloads pgvector from the Python package index (38 MB). Requires python3 with pip, and glibc 2.28 or newer. The command may be repeated.

Environment: ESPALIER_HOME, the directory of the installation.`

const command: Command = {
  help,
  async run(args) {
    parseFlags(args, {})
    const { home, runAs } = readSettings(process.env)
    const installer = createInstaller({ home, owner: runAs })
    await mkdir(home, { recursive: true })
    for (const major of pgvectorMajors) {
      const version = await fetchPgvector(home, major)
      await installer.addExtensions(major)
      console.log(`Postgres ${major} has pgvector ${version}`)
    }
    console.log('To add pgvector to a database, run in that database: CREATE EXTENSION vector;')
    return 0
  },
}
export default command
