# Bash completion of Lectern's tools: options and subcommands as --help lists them, else files.
_lectern() {
  local word=${COMP_WORDS[COMP_CWORD]} help words
  help=$("$1" --help 2>/dev/null)
  words=$(sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p' <<<"$help")
  if ((COMP_CWORD > 1)) && grep -qxF -e "${COMP_WORDS[1]}" <<<"$words"; then
    help=$("$1" "${COMP_WORDS[1]}" --help 2>/dev/null)
    words=
  fi
  if [[ $word == -* ]]; then
    words=$(sed -n 's/^  \(-.,\)\{0,1\}\(--[a-z-]*\).*/\2/p' <<<"$help")
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o bashdefault -o default -F _lectern \
  index-document ask-document lectern-store lectern-evaluate lectern-doctor lectern-server
