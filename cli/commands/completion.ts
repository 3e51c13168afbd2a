/** `espalier completion`: prints the script that completes commands and names in a shell. */
import { Argument } from 'commander'
import { program } from '../../server/program.ts'
import { type ClientCommand, createCommand } from '../arguments.ts'
import { completionScripts, type Shell, shells } from '../completion/scripts.ts'

const command: ClientCommand = run =>
  createCommand(run, 'completion', 'Prints the script that completes commands and names in a shell.')
    .addArgument(new Argument('<shell>', 'the shell').choices(shells))
    .addHelpText('after', `\nFor bash, in ~/.bashrc: eval "$(${program} completion bash)"`)
    .action((shell: Shell) => {
      run.io.output.write(`${completionScripts[shell]}\n`)
    })
export default command
