/**
 * The scripts that `espalier completion` prints. Each script calls `espalier __complete` for the candidates. For a path
 * such as `./espalier`, the scripts run the `espalier` on PATH: completion must not run a file of a cloned
 * repository.
 */

const bash = `# Run: eval "$(espalier completion bash)"
# Or save this file as ~/.local/share/bash-completion/completions/espalier
_espalier() {
  local IFS=$'\\n'
  COMPREPLY=($("\${COMP_WORDS[0]##*/}" __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -F _espalier espalier espalier.mjs kubectl-espalier`

const zsh = `#compdef espalier
# Save this file as _espalier in a directory of $fpath. Or run after compinit: eval "$(espalier completion zsh)"
_espalier() {
  local -a found
  found=("\${(@f)$("\${words[1]:t}" __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  found=(\${found:#})
  (( \${#found} )) && compadd -a found
}
if [ "\${funcstack[1]}" = _espalier ]; then _espalier; else compdef _espalier espalier espalier.mjs kubectl-espalier; fi`

const fish = `# espalier completion fish > ~/.config/fish/completions/espalier.fish
function __espalier_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l name (string replace -r '.*/' '' -- $words[1])
  $name __complete -- $words[2..] 2>/dev/null
end
complete -c espalier -f -a '(__espalier_complete)'
complete -c espalier.mjs -f -a '(__espalier_complete)'
complete -c kubectl-espalier -f -a '(__espalier_complete)'`

export const shells = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof shells)[number]
export const completionScripts: Readonly<Record<Shell, string>> = { bash, zsh, fish }
