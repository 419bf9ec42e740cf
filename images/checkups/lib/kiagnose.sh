# Library for checkups in shell: parameters, results and verdict. Needs awk, date, and openssl or curl.
#
#   . ./kiagnose.sh
#   kiagnose_result echo "$(kiagnose_param message)"
#   kiagnose_succeed
#
# Copy this file beside your program. It works in any POSIX shell, with a read-only root file system.
# Functions whose name begins with kiagnose__ are internal.

KIAGNOSE_ACCOUNT=${KIAGNOSE_ACCOUNT:-/var/run/secrets/kubernetes.io/serviceaccount}
KIAGNOSE_ATTEMPTS=${KIAGNOSE_ATTEMPTS:-6}
kiagnose__namespace=${RESULT_CONFIGMAP_NAMESPACE:-${CONFIGMAP_NAMESPACE:-}}
kiagnose__configmap=${RESULT_CONFIGMAP_NAME:-${CONFIGMAP_NAME:-}}
kiagnose__path=/api/v1/namespaces/$kiagnose__namespace/configmaps/$kiagnose__configmap
kiagnose__found=
kiagnose__stored=
kiagnose__started=
# The shell is PID 1 of its container: without a trap it ignores SIGTERM.
trap 'kiagnose_say "stopped by SIGTERM, without a verdict"; exit 143' TERM

if [ -z "$kiagnose__configmap" ] || [ -z "$kiagnose__namespace" ] || [ -z "${KUBERNETES_SERVICE_HOST:-}" ]; then
  echo "cannot run: the name of the results ConfigMap is not set; run this image as a Checkup" >&2
  exit 2
fi

# kiagnose_say TEXT: write a line to the log, which is kept as evidence when a checkup does not pass.
kiagnose_say() { printf '%s\n' "$*"; }

# kiagnose_param NAME [DEFAULT]: print a parameter; without a default it is required.
# In `x=$(kiagnose_param …) || exit` a missing one ends the checkup.
kiagnose_param() {
  if printenv "$(printf %s "$1" | tr '[:lower:]' '[:upper:]')"; then return; fi
  kiagnose__read || exit
  if printf '%s\n' "$kiagnose__stored" | kiagnose__field "spec.param.$1"; then return; fi
  if [ $# -gt 1 ]; then
    printf '%s\n' "$2"
  else
    kiagnose_fail "input: parameter $1 is missing; add it to spec.params" >&2
  fi
}

# kiagnose_start: mark the ConfigMap as started; one that was used before is refused (v0.2.1 and later).
kiagnose_start() {
  kiagnose__read || exit
  if printf '%s\n' "$kiagnose__stored" | kiagnose__field status.startTimestamp >/dev/null; then
    echo "cannot run: ConfigMap $kiagnose__configmap is already in use; delete the Checkup and create it again" >&2
    exit 2
  fi
  kiagnose__started=yes
  # With the resourceVersion that was read, so that only one of two pods succeeds.
  kiagnose__version=$(printf '%s\n' "$kiagnose__stored" | kiagnose__field resourceVersion metadata)
  kiagnose__send PATCH "{\"metadata\":{\"resourceVersion\":\"$kiagnose__version\"},\"data\":{$(
    kiagnose__member status.startTimestamp "$(kiagnose__now)")}}" || exit
}

# kiagnose_result KEY VALUE: record a result; it is sent at the end, or by kiagnose_publish.
kiagnose_result() {
  case $1 in
    '' | *[!-._a-zA-Z0-9]*)
      kiagnose_fail "check: '$1' cannot name a result: use letters, digits, '-', '_' and '.'" ;;
  esac
  kiagnose__found=$kiagnose__found,$(kiagnose__member "status.result.$1" "$2")
}

# kiagnose_publish: send the results so far; the Checkup's status shows them while it runs.
# A failure to send is ignored: everything is sent again at the end.
kiagnose_publish() { kiagnose__write "${kiagnose__found#,}" || :; }

# kiagnose_succeed: send all results and the verdict that the checkup passed.
kiagnose_succeed() {
  kiagnose__finish true "" && kiagnose_say passed && exit 0
  kiagnose_fail "check: the results cannot be stored, see the log"
}

# kiagnose_fail REASON: send all results and why the checkup failed. Begin with the part that it is about:
# "input: …", "setup: …" or "check: …".
kiagnose_fail() {
  kiagnose_say "failed: $1"
  kiagnose__finish false "$1" && exit 1
  # The results are probably too large: report at least the reason.
  kiagnose__found=
  kiagnose__finish false "$1" && exit 1
  exit 2
}

kiagnose__finish() {
  kiagnose__verdict=$(kiagnose__member status.succeeded "$1"),$(kiagnose__member status.failureReason "$2")
  if [ -n "$kiagnose__started" ]; then
    kiagnose__verdict=$kiagnose__verdict,$(kiagnose__member status.completionTimestamp "$(kiagnose__now)")
  fi
  kiagnose__write "$kiagnose__verdict$kiagnose__found"
}

kiagnose__write() { kiagnose__send PATCH "{\"data\":{$1}}"; }

kiagnose__read() {
  [ -n "$kiagnose__stored" ] || kiagnose__send GET "" || return
  kiagnose__stored=${kiagnose__stored:-$kiagnose__body}
}

kiagnose__now() { date -u +%Y-%m-%dT%H:%M:%SZ; }

# kiagnose__member KEY VALUE: print one member of a JSON object.
kiagnose__member() { printf '%s:%s' "$(kiagnose__quoted "$1")" "$(kiagnose__quoted "$2")"; }

# kiagnose__quoted TEXT: print it as a JSON string.
kiagnose__quoted() {
  printf '%s\n' "$1" | LC_ALL=C awk '
    BEGIN {
      for (i = 1; i < 32; i++) control[sprintf("%c", i)] = sprintf("\\u%04x", i)
      printf "\""
    }
    {
      gsub(/\\/, "&&")
      gsub(/"/, "\\\\&")
      if ($0 ~ /[\001-\037]/) for (c in control) gsub(c, control[c])
      printf "%s%s", (NR > 1 ? "\\n" : ""), $0
    }
    END { printf "\"" }'
}

# kiagnose__field KEY [OBJECT]: print the string of that name in `data` of the object on stdin; fail without one.
kiagnose__field() {
  LC_ALL=C awk -v key="\"$1\":\"" -v object="\"${2:-data}\":{" '
    function digit(c) { return index("0123456789abcdef", tolower(c)) - 1 }
    function code(s,  i, n) { for (i = 1; i <= 4; i++) n = n * 16 + digit(substr(s, i, 1)); return n }
    function bytes(n) {
      if (n < 128) return sprintf("%c", n)
      if (n < 2048) return sprintf("%c%c", 192 + int(n / 64), 128 + n % 64)
      return sprintf("%c%c%c", 224 + int(n / 4096), 128 + int(n / 64) % 64, 128 + n % 64)
    }
    { text = text $0 }
    END {
      start = index(text, object)
      if (!start) exit 1
      text = substr(text, start)
      start = index(text, key)
      if (!start) exit 1
      text = substr(text, start + length(key))
      short["n"] = "\n"; short["t"] = "\t"; short["r"] = "\r"; short["b"] = "\b"; short["f"] = "\f"
      while (match(text, /["\\]/)) {
        printf "%s", substr(text, 1, RSTART - 1)
        if (substr(text, RSTART, 1) == "\"") break
        next_one = substr(text, RSTART + 1, 1)
        text = substr(text, RSTART + 2)
        if (next_one == "u") {
          printf "%s", bytes(code(substr(text, 1, 4)))
          text = substr(text, 5)
        } else printf "%s", (next_one in short) ? short[next_one] : next_one
      }
      print ""
    }'
}

# kiagnose__send METHOD BODY: send a request, with retries if the server is unavailable or busy; the response is in kiagnose__body.
kiagnose__send() {
  kiagnose__attempt=1
  while :; do
    kiagnose__once "$1" "$2"
    case $kiagnose__status in
      2??) return 0 ;;
      '' | 000 | 429 | 5??) ;;
      *) break ;;
    esac
    [ "$kiagnose__attempt" -lt "$KIAGNOSE_ATTEMPTS" ] || break
    sleep "$kiagnose__attempt"
    kiagnose__attempt=$((kiagnose__attempt + 1))
  done
  echo "cannot $1 ConfigMap $kiagnose__namespace/$kiagnose__configmap: ${kiagnose__status:-no answer}: $kiagnose__body" >&2
  return 2
}

kiagnose__once() {
  kiagnose__status=
  kiagnose__body=
  # Read the token for every request, because the kubelet renews it.
  kiagnose__token=$(cat "$KIAGNOSE_ACCOUNT/token") || return 0
  kiagnose__port=${KUBERNETES_SERVICE_PORT:-443}
  # IPv6 addresses need brackets.
  case $KUBERNETES_SERVICE_HOST in
    *:*) kiagnose__server="[$KUBERNETES_SERVICE_HOST]:$kiagnose__port" ;;
    *) kiagnose__server=$KUBERNETES_SERVICE_HOST:$kiagnose__port ;;
  esac
  if command -v openssl >/dev/null; then kiagnose__by_openssl "$@"; else kiagnose__by_curl "$@"; fi
}

kiagnose__by_openssl() {
  case $KUBERNETES_SERVICE_HOST in
    *[!0-9.:a-fA-F]*) kiagnose__check="-verify_hostname $KUBERNETES_SERVICE_HOST -servername $KUBERNETES_SERVICE_HOST" ;;
    *) kiagnose__check="-verify_ip $KUBERNETES_SERVICE_HOST -noservername" ;;
  esac
  # HTTP/1.0: the response is not chunked and ends with the connection.
  # shellcheck disable=SC2086 # the options are words
  kiagnose__answer=$({
    printf '%s %s?pretty=false HTTP/1.0\r\nHost: %s\r\nAuthorization: Bearer %s\r\nAccept: application/json\r\n' \
      "$1" "$kiagnose__path" "$kiagnose__server" "$kiagnose__token"
    printf 'Content-Type: application/merge-patch+json\r\nContent-Length: %s\r\n\r\n%s' \
      "$(printf %s "$2" | wc -c | tr -d ' ')" "$2"
  } | timeout 10 openssl s_client -quiet -verify_quiet -verify_return_error -CAfile "$KIAGNOSE_ACCOUNT/ca.crt" \
    $kiagnose__check -connect "$kiagnose__server") || :
  kiagnose__status=${kiagnose__answer#HTTP/1.? }
  kiagnose__status=${kiagnose__status%"${kiagnose__status#???}"}
  kiagnose__line=$(printf '\r\n\r\nx')
  kiagnose__body=${kiagnose__answer#*"${kiagnose__line%x}"}
}

kiagnose__by_curl() {
  kiagnose__answer=$(printf %s "$2" | curl --silent --show-error --noproxy '*' --max-time 10 \
    --cacert "$KIAGNOSE_ACCOUNT/ca.crt" --request "$1" --header "Authorization: Bearer $kiagnose__token" \
    --header 'Content-Type: application/merge-patch+json' --data-binary @- --write-out '\n%{http_code}' \
    "https://$kiagnose__server$kiagnose__path?pretty=false") || :
  kiagnose__status=${kiagnose__answer##*"
"}
  kiagnose__body=${kiagnose__answer%"
$kiagnose__status"}
}
